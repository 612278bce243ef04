{# Incremental models. Each strategy is one statement, and so one commit. #}

{% macro lsmlake__strategy() %}
  {% set given = config.get('incremental_strategy') or 'default' %}
  {{ return(given if given != 'default' else 'merge' if config.get('unique_key') else 'append') }}
{% endmacro %}

{% materialization incremental, adapter='lsmlake' -%}
  {% set strategy = lsmlake__strategy() %}
  {% do adapter.check_config(config.model, 'incremental', strategy) %}
  {% set strategy_sql = adapter.get_incremental_strategy_macro(context, strategy) %}
  {% set on_schema_change = lsmlake__on_schema_change() %}
  {% set existing = load_cached_relation(this) %}
  {% set target = this.incorporate(type='table') %}
  {% set is_new = existing is none or existing.is_view or should_full_refresh() %}
  {% if not is_new %}
    {% do adapter.keep_layout(existing, config.model) %}
  {% endif %}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {% if lsmlake__chosen_columns() %}
    {% do adapter.merged_columns(config.model, sql) %}
  {% endif %}
  {% if is_new %}
    {% do lsmlake__build_table(existing, target, sql) %}
  {% else %}
    {% set rows = make_temp_relation(target) %}
    {% do run_query(create_table_as(True, rows, sql)) %}
    {% set columns = process_schema_changes(on_schema_change, rows, existing) or adapter.get_columns_in_relation(existing) %}
    {% set arguments = {
      'target_relation': target,
      'temp_relation': rows,
      'unique_key': config.get('unique_key'),
      'dest_columns': columns,
      'incremental_predicates': adapter.config_texts(config.model, 'predicates') or adapter.config_texts(config.model, 'incremental_predicates')
    } %}
    {% call statement('main') %}
      {{ strategy_sql(arguments) }}
    {% endcall %}
    {% do adapter.drop_relation(rows) %}
  {% endif %}
  {% do persist_docs(target, model) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target]}) }}
{%- endmaterialization %}

{# Whether the model says which columns a merge changes. #}
{% macro lsmlake__chosen_columns() %}
  {{ return(config.get('merge_update_columns') or config.get('merge_exclude_columns')) }}
{% endmacro %}

{% macro lsmlake__on_schema_change() %}
  {% set given = config.get('on_schema_change') or 'ignore' %}
  {% set known = ['ignore', 'fail', 'append_new_columns', 'sync_all_columns'] %}
  {% if given not in known %}
    {{ exceptions.raise_compiler_error("unknown on_schema_change " ~ given ~ ", expected one of " ~ known | join(', ')) }}
  {% endif %}
  {{ return(given) }}
{% endmacro %}

{% macro lsmlake__key(unique_key) %}
  {{ return([unique_key] if unique_key is string else unique_key) }}
{% endmacro %}

{% macro lsmlake__key_match(unique_key, predicates) -%}
  {%- for name in lsmlake__key(unique_key) -%}
    {{ ' and ' if not loop.first }}DBT_INTERNAL_SOURCE.{{ name }} = DBT_INTERNAL_DEST.{{ name }}
  {%- endfor -%}
  {%- for one in predicates or [] %} and ({{ one }}){% endfor -%}
{%- endmacro %}

{# A row whose key is the primary key is an upsert, which reads nothing of the table. Columns of the primary key, which no statement
   can change, are equal in both rows where they are part of unique_key. #}
{% macro lsmlake__get_incremental_merge_sql(arg_dict) %}
  {% set target, rows, columns = arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['dest_columns'] %}
  {% set key, predicates = arg_dict['unique_key'], arg_dict['incremental_predicates'] %}
  {% set primary_key = adapter.primary_key(target) | map('lower') | sort %}
  {% if primary_key and not predicates and not lsmlake__chosen_columns() and lsmlake__key(key) | map('lower') | sort == primary_key %}
    {{ return(get_insert_into_sql(target, rows, columns)) }}
  {% endif %}
  {% set equal = lsmlake__key(key) | map('lower') | select('in', primary_key) | list %}
  {% set updated = [] %}
  {% for name in adapter.merged_columns(config.model, columns | map(attribute='name') | list) if name | lower not in equal %}
    {% do updated.append(adapter.quote(name)) %}
  {% endfor %}
  {% set merge %}
    merge into {{ target.render() }} as DBT_INTERNAL_DEST
    using {{ rows.render() }} as DBT_INTERNAL_SOURCE
    on {{ lsmlake__key_match(key, predicates) }}
    {%- if updated %}
    when matched then update set
      {%- for name in updated %} {{ name }} = DBT_INTERNAL_SOURCE.{{ name }}{{ ',' if not loop.last }}{% endfor %}
    {%- endif %}
    when not matched then insert {{ lsmlake__insert_clause(columns) }}
  {% endset %}
  {{ return(merge) }}
{% endmacro %}

{% macro lsmlake__get_incremental_delete_insert_sql(arg_dict) %}
  {% set key = lsmlake__key(arg_dict['unique_key']) | join(', ') %}
  {% set stale = ['(' ~ key ~ ') in (select ' ~ key ~ ' from ' ~ arg_dict['temp_relation'].render() ~ ' as dbt_internal_new)'] %}
  {% for one in arg_dict['incremental_predicates'] or [] %}
    {% do stale.append('(' ~ one ~ ')') %}
  {% endfor %}
  {{ return(lsmlake__replace_rows(arg_dict, stale)) }}
{% endmacro %}

{# The rows of a batch replace those of its time. #}
{% macro lsmlake__get_incremental_microbatch_sql(arg_dict) %}
  {% set column = 'DBT_INTERNAL_DEST.' ~ model.config.event_time %}
  {% set begin, end = model.config.__dbt_internal_microbatch_event_time_start, model.config.__dbt_internal_microbatch_event_time_end %}
  {% set stale = [] %}
  {% if begin %}{% do stale.append(column ~ " >= timestamp '" ~ begin ~ "'") %}{% endif %}
  {% if end %}{% do stale.append(column ~ " < timestamp '" ~ end ~ "'") %}{% endif %}
  {{ return(lsmlake__replace_rows(arg_dict, stale)) }}
{% endmacro %}

{# Deletes the rows of the table that satisfy all conditions of `stale`, and inserts the new ones, in one commit. #}
{% macro lsmlake__replace_rows(arg_dict, stale) %}
  {% set columns = arg_dict['dest_columns'] %}
  {% set merge %}
    merge into {{ arg_dict['target_relation'].render() }} as DBT_INTERNAL_DEST
    using {{ arg_dict['temp_relation'].render() }} as DBT_INTERNAL_SOURCE
    on false
    when not matched by source and {{ stale | join(' and ') }} then delete
    when not matched then insert {{ lsmlake__insert_clause(columns) }}
  {% endset %}
  {{ return(merge) }}
{% endmacro %}

{% macro lsmlake__insert_clause(columns) -%}
  ({{ get_quoted_csv(columns | map(attribute='name')) }}) values (
    {%- for column in columns -%} DBT_INTERNAL_SOURCE.{{ column.quoted }}{{ ', ' if not loop.last }} {%- endfor -%}
  )
{%- endmacro %}

{% macro lsmlake__get_incremental_insert_overwrite_sql(arg_dict) %}
  {% set names = get_quoted_csv(arg_dict['dest_columns'] | map(attribute='name')) %}
  {% set overwrite %}
    insert overwrite {{ arg_dict['target_relation'].render() }} ({{ names }})
    select {{ names }} from {{ arg_dict['temp_relation'].render() }}
  {% endset %}
  {{ return(overwrite) }}
{% endmacro %}
