{# Creating tables and views. #}

{% macro lsmlake__create_table_as(temporary, relation, sql) -%}
  {%- if temporary -%}
    {%- if config.get('contract').enforced -%}
      {%- do get_assert_columns_equivalent(sql) -%}
    {%- endif -%}
    create or replace temporary view {{ relation.include(schema=false).render() }} as {{ sql }}
  {%- else -%}
    {{ lsmlake__create_table_head(relation, sql) }} as
    {%- if config.get('contract').enforced %}
    {{ get_select_subquery(sql) }}
    {%- else %}
    {{ sql }}
    {%- endif %}
  {%- endif -%}
{%- endmacro %}

{# CREATE OR REPLACE TABLE, as far as AS. `sql`: of a model that may have a contract. `columns`: with their types, as text. #}
{% macro lsmlake__create_table_head(relation, sql=none, columns=none) -%}
  {%- set layout = adapter.table_layout(config.model) -%}
  create or replace table {{ relation.render() }}
  {%- if sql is not none and config.get('contract').enforced %}
    {{ get_assert_columns_equivalent(sql) }}
    {{ get_table_columns_and_constraints() }}
  {%- elif columns is not none %}
    ({{ columns }})
  {%- endif %}
  {%- if layout.partition_by %}
  partitioned by ({{ layout.partition_by | join(', ') }})
  {%- endif %}
  {%- if config.persist_relation_docs() and model.description %}
  comment {{ string_literal(escape_single_quotes(model.description)) }}
  {%- endif %}
  {%- set options = dict(layout.options) %}
  {%- if layout.primary_key -%}
    {%- do options.update({'primary-key': layout.primary_key | join(',')}) -%}
  {%- endif %}
  {%- if options %}
  tblproperties (
    {%- for name, value in options.items() -%}
      {{ string_literal(escape_single_quotes(name)) }} = {{ string_literal(escape_single_quotes(value)) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
  )
  {%- endif %}
{%- endmacro %}

{% macro lsmlake__create_view_as(relation, sql) -%}
  create or replace view {{ relation.render() }}
  {%- if config.get('contract').enforced %}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif %}
  {%- if config.persist_column_docs() and model.columns %}
    {%- set names = get_columns_in_query(sql) %}
    {%- set known = validate_doc_columns(relation, model.columns, names) %}
    {%- set comments = {} %}
    {%- for name, column in known.items() -%}
      {%- do comments.update({name | lower: column.description}) -%}
    {%- endfor %}
    (
    {%- for name in names -%}
      {{ adapter.quote(name) }}{% if comments.get(name | lower) %} comment {{ string_literal(escape_single_quotes(comments[name | lower])) }}{% endif %}{{ ', ' if not loop.last }}
    {%- endfor -%}
    )
  {%- endif %}
  {%- if config.persist_relation_docs() and model.description %}
  comment {{ string_literal(escape_single_quotes(model.description)) }}
  {%- endif %}
  as {{ sql }}
{%- endmacro %}

{# A table is replaced by one commit, so that a model that fails, and a crash, leave the old one. Another primary key, other
   partitions, and a table in the place of a view need a new table, which takes the name when it is complete. #}
{% macro lsmlake__build_table(existing, target, sql) %}
  {% set in_place = existing is none or (existing.is_table and adapter.can_be_replaced(existing, config.model, sql)) %}
  {% set made = target if in_place else target.incorporate(path={"identifier": target.identifier ~ '__dbt_tmp'}) %}
  {% if not in_place %}
    {% do adapter.drop_relation(made) %}
  {% endif %}
  {% call statement('main') -%}
    {{ get_create_table_as_sql(False, made, sql) }}
  {%- endcall %}
  {% if not in_place %}
    {% do lsmlake__take_name(existing, made, target) %}
  {% endif %}
{% endmacro %}

{% macro lsmlake__take_name(existing, made, target) %}
  {% set backup = existing.incorporate(path={"identifier": existing.identifier ~ '__dbt_backup'}) %}
  {% do adapter.drop_relation(backup) %}
  {% do adapter.rename_relation(existing, backup) %}
  {% do adapter.rename_relation(made, target) %}
  {% do adapter.drop_relation(backup) %}
{% endmacro %}

{% materialization table, adapter='lsmlake' %}
  {% do adapter.check_config(config.model, 'table') %}
  {% set existing = load_cached_relation(this) %}
  {% set target = this.incorporate(type='table') %}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {% do lsmlake__build_table(existing, target, sql) %}
  {% do persist_docs(target, model) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% materialization view, adapter='lsmlake' %}
  {% do adapter.check_config(config.model, 'view') %}
  {% set existing = load_cached_relation(this) %}
  {% set target = this.incorporate(type='view') %}
  {% set in_place = existing is none or existing.is_view %}
  {% set made = target if in_place else target.incorporate(path={"identifier": target.identifier ~ '__dbt_tmp'}) %}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {% call statement('main') -%}
    {{ get_create_view_as_sql(made, sql) }}
  {%- endcall %}
  {% if not in_place %}
    {% do lsmlake__take_name(existing, made, target) %}
  {% endif %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}
