{# A seed is loaded by one commit: a file that does not fit leaves the old rows. #}

{% materialization seed, adapter='lsmlake' %}
  {% do adapter.check_config(config.model, 'seed') %}
  {% set existing = load_cached_relation(this) %}
  {% set target = this.incorporate(type='table') %}
  {% if existing is not none and existing.is_view %}
    {{ exceptions.raise_compiler_error("Cannot seed to '{}', it is a view".format(existing.render())) }}
  {% endif %}
  {% set rows = load_agate_table() %}
  {% do store_result('agate_table', response='OK', agate_table=rows) %}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {% set types = lsmlake__seed_types(rows) %}
  {% set in_place = existing is none or adapter.can_be_replaced(existing, config.model, types) %}
  {% set made = target if in_place else target.incorporate(path={"identifier": target.identifier ~ '__dbt_tmp'}) %}
  {% if not in_place %}
    {% do adapter.drop_relation(made) %}
  {% endif %}
  {% set quotes = model['config'].get('quote_columns') %}
  {% set columns = [] %}
  {% for name, type in types.items() %}
    {% do columns.append(adapter.quote_seed_column(name, quotes) ~ ' ' ~ type) %}
  {% endfor %}
  {% set create = lsmlake__create_table_head(made, columns=columns | join(', ')) %}
  {% do adapter.load_seed(create, rows, types, quotes, config.model) %}
  {% if not in_place %}
    {% do lsmlake__take_name(existing, made, target) %}
  {% endif %}
  {% set count = rows.rows | length %}
  {% call noop_statement('main', 'INSERT ' ~ count, 'INSERT', count) %}
    {{ create }} as select ...
  {% endcall %}
  {% do persist_docs(target, model) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% macro lsmlake__seed_types(rows) %}
  {% set given = model['config'].get('column_types', {}) %}
  {% for name in given if name not in rows.column_names %}
    {{ exceptions.raise_compiler_error("column_types names " ~ name ~ ", which the file does not have; its columns are " ~ rows.column_names | join(', ')) }}
  {% endfor %}
  {% set types = {} %}
  {% for name in rows.column_names %}
    {% do types.update({name: given.get(name, adapter.convert_type(rows, loop.index0))}) %}
  {% endfor %}
  {{ return(types) }}
{% endmacro %}
