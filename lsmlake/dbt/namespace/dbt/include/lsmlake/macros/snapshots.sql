{# The parts of dbt's snapshot that name types, or forms of MERGE. #}

{# dbt's own materialization reads no config that it does not know. #}
{% materialization snapshot, adapter='lsmlake' %}
  {% do adapter.check_config(config.model, 'snapshot') %}
  {% set existing = load_cached_relation(this) %}
  {% if existing is not none and existing.is_table %}
    {% do adapter.keep_layout(existing, config.model) %}
  {% endif %}
  {{ return(materialization_snapshot_default()) }}
{% endmaterialization %}

{% macro lsmlake__snapshot_hash_arguments(args) -%}
  md5({%- for arg in args -%}coalesce(cast({{ arg }} as string), ''){% if not loop.last %} || '|' || {% endif %}{%- endfor -%})
{%- endmacro %}

{% macro lsmlake__post_snapshot(staging_relation) %}
  {% do adapter.drop_relation(staging_relation) %}
{% endmacro %}

{# The columns of times have the type of the updated_at that the snapshot began with, such as DATE, also where the new time is that
   of the run. #}
{% macro lsmlake__snapshot_merge_sql(target, source, insert_cols) -%}
  {%- set columns = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
  {%- set types = {} -%}
  {%- for column in adapter.get_columns_in_relation(target) -%}
    {%- do types.update({column.name | lower: column.data_type}) -%}
  {%- endfor -%}
  {%- set times = [columns.dbt_valid_from, columns.dbt_valid_to, columns.dbt_updated_at] | map('lower') | list -%}
  {%- set values = [] -%}
  {%- for name in insert_cols -%}
    {%- set value = 'DBT_INTERNAL_SOURCE.' ~ name -%}
    {%- set plain = name[1:-1] | lower -%}
    {%- do values.append('cast(' ~ value ~ ' as ' ~ types[plain] ~ ')' if plain in times else value) -%}
  {%- endfor -%}
  {%- set valid_to = 'DBT_INTERNAL_DEST.' ~ columns.dbt_valid_to -%}
  {%- set current = config.get('dbt_valid_to_current') -%}
  merge into {{ target.render() }} as DBT_INTERNAL_DEST
  using {{ source.render() }} as DBT_INTERNAL_SOURCE
  on DBT_INTERNAL_SOURCE.{{ columns.dbt_scd_id }} = DBT_INTERNAL_DEST.{{ columns.dbt_scd_id }}
  when matched and ({{ valid_to ~ ' = ' ~ current ~ ' or ' if current }}{{ valid_to }} is null)
    and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    then update set {{ columns.dbt_valid_to }} = cast(DBT_INTERNAL_SOURCE.{{ columns.dbt_valid_to }} as {{ types[columns.dbt_valid_to | lower] }})
  when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
    then insert ({{ insert_cols | join(', ') }}) values ({{ values | join(', ') }})
{%- endmacro %}
