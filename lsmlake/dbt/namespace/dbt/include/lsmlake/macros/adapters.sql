{# Schemas, relations and columns: the statements that have another form here than in the macros of dbt. #}

{% macro lsmlake__generate_database_name(custom_database_name=none, node=none) -%}
  {%- if custom_database_name is not none -%}
    {{ exceptions.raise_compiler_error("a lake has no database above its schemas, found " ~ custom_database_name ~ "; write schema") }}
  {%- endif -%}
  {{ return(none) }}
{%- endmacro %}

{% macro lsmlake__drop_relation(relation) -%}
  {% call statement('drop_relation', auto_begin=False) -%}
    {{ get_drop_sql(relation) }}
  {%- endcall %}
{% endmacro %}

{% macro lsmlake__get_drop_sql(relation) -%}
  drop {{ 'view' if relation.is_view else 'table' }} if exists {{ relation.render() }}
{%- endmacro %}

{% macro lsmlake__rename_relation(from_relation, to_relation) -%}
  {% call statement('rename_relation') -%}
    alter {{ 'view' if from_relation.is_view else 'table' }} {{ from_relation.render() }} rename to {{ to_relation.render() }}
  {%- endcall %}
{% endmacro %}

{# A temporary view belongs to the connection of a thread, and has no schema. #}
{% macro lsmlake__make_temp_relation(base_relation, suffix) %}
  {% set identifier = base_relation.identifier ~ suffix %}
  {{ return(base_relation.incorporate(path={"schema": none, "identifier": identifier}, type='view')) }}
{% endmacro %}

{% macro lsmlake__alter_column_type(relation, column_name, new_column_type) -%}
  {% call statement('alter_column_type') %}
    alter table {{ relation.render() }} alter column {{ adapter.quote(column_name) }} type {{ new_column_type }}
  {% endcall %}
{% endmacro %}

{% macro lsmlake__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% do adapter.alter_columns(relation, add_columns or [], remove_columns or []) %}
{% endmacro %}

{% macro lsmlake__create_columns(relation, columns) %}
  {% do adapter.alter_columns(relation, columns, []) %}
{% endmacro %}

{% macro lsmlake__apply_grants(relation, grant_config, should_revoke=True) %}
  {% if grant_config %}
    {{ exceptions.raise_compiler_error("the config grants has no meaning for lsmlake; a lake has no users: leave it out, and grant access to its files") }}
  {% endif %}
{% endmacro %}

{% macro lsmlake__copy_grants() %}{{ return(False) }}{% endmacro %}

{# The comments of a view are part of its definition: see create_view_as. #}
{% macro lsmlake__persist_docs(relation, model, for_relation, for_columns) -%}
  {% if not relation.is_view %}
    {% set comment = model.description if for_relation and config.persist_relation_docs() and model.description else none %}
    {% set comments = {} %}
    {% if for_columns and config.persist_column_docs() and model.columns %}
      {% set names = adapter.get_columns_in_relation(relation) | map(attribute='name') | list %}
      {% for name, column in validate_doc_columns(relation, model.columns, names).items() %}
        {% do comments.update({name: column.description}) %}
      {% endfor %}
    {% endif %}
    {% if comment is not none or comments %}
      {% do adapter.set_comments(relation, comment, comments) %}
    {% endif %}
  {% endif %}
{% endmacro %}

{% macro lsmlake__current_timestamp() -%}current_timestamp(){%- endmacro %}

{% macro lsmlake__snapshot_string_as_time(timestamp) -%}
  {{ return("to_timestamp('" ~ timestamp ~ "')") }}
{%- endmacro %}

{% macro lsmlake__get_limit_sql(sql, limit) -%}
  {{ sql }}
  {% if limit is not none %}
  limit {{ limit }}
  {%- endif -%}
{%- endmacro %}

{# A model has no database, so its dictionary has none to pass on. #}
{% macro lsmlake__get_or_create_relation(database, schema, identifier, type) %}
  {%- set found = adapter.get_relation(database=none, schema=schema, identifier=identifier) %}
  {% if found %}
    {{ return([true, found]) }}
  {% endif %}
  {{ return([false, api.Relation.create(schema=schema, identifier=identifier, type=type)]) }}
{% endmacro %}

{# Macros of dbt call this one, the adapter has the method. #}
{% macro lsmlake__get_columns_in_relation(relation) %}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}
