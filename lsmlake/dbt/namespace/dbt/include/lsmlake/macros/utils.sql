{# The functions that dbt's macros for all databases spell in another way. #}

{% macro lsmlake__escape_single_quotes(expression) -%}
  {{ expression | replace('\\', '\\\\') | replace("'", "\\'") }}
{%- endmacro %}

{% macro lsmlake__safe_cast(field, type) -%}
  try_cast({{ field }} as {{ type }})
{%- endmacro %}

{% macro lsmlake__array_construct(inputs, data_type) -%}
  {% if inputs %}array({{ inputs | join(', ') }}){% else %}cast(array() as array<{{ data_type }}>){% endif %}
{%- endmacro %}

{% macro lsmlake__array_append(array, new_element) -%}
  array_append({{ array }}, {{ new_element }})
{%- endmacro %}

{% macro lsmlake__array_concat(array_1, array_2) -%}
  concat({{ array_1 }}, {{ array_2 }})
{%- endmacro %}

{# The first `limit_num` of the texts are found between characters that no text should have. #}
{% macro lsmlake__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
  {%- set between = "'\\u0001'" if limit_num else delimiter_text -%}
  {%- set all -%}
    listagg({{ measure }}, {{ between }}){% if order_by_clause %} within group ({{ order_by_clause }}){% endif %}
  {%- endset -%}
  {%- if limit_num -%}
    array_join(slice(split({{ all }}, {{ between }}), 1, {{ limit_num }}), {{ delimiter_text }})
  {%- else -%}
    {{ all }}
  {%- endif -%}
{%- endmacro %}

{# dbt counts the borders of the part between two times, where datediff of Spark counts whole parts. Weeks begin on Mondays. #}
{% macro lsmlake__datediff(first_date, second_date, datepart) -%}
  {%- set part = datepart | lower -%}
  {%- set first, second = 'cast(' ~ first_date ~ ' as timestamp)', 'cast(' ~ second_date ~ ' as timestamp)' -%}
  {%- if part in ('year', 'quarter', 'month') -%}
    {%- set parts = {'year': 1, 'quarter': 4, 'month': 12}[part] -%}
    ((year({{ second }}) - year({{ first }})) * {{ parts }}{% if parts > 1 %} + {{ part }}({{ second }}) - {{ part }}({{ first }}){% endif %})
  {%- elif part == 'day' -%}
    datediff(cast({{ second }} as date), cast({{ first }} as date))
  {%- elif part == 'week' -%}
    (datediff(cast(date_trunc('week', {{ second }}) as date), cast(date_trunc('week', {{ first }}) as date)) div 7)
  {%- elif part in ('hour', 'minute') -%}
    {%- set seconds = {'hour': 3600, 'minute': 60}[part] -%}
    ((unix_seconds(date_trunc('{{ part }}', {{ second }})) - unix_seconds(date_trunc('{{ part }}', {{ first }}))) div {{ seconds }})
  {%- elif part in ('second', 'millisecond', 'microsecond') -%}
    {%- set unix = {'second': 'unix_seconds', 'millisecond': 'unix_millis', 'microsecond': 'unix_micros'}[part] -%}
    ({{ unix }}({{ second }}) - {{ unix }}({{ first }}))
  {%- else -%}
    {{ exceptions.raise_compiler_error("datediff does not know the part " ~ datepart ~ ", expected year, quarter, month, week, day, hour, minute, second, millisecond or microsecond") }}
  {%- endif -%}
{%- endmacro %}
