# Documentation that is made from tables of the code. Tests compare the committed files with the tables.
add_custom_target(docs COMMAND run_docs > ${PROJECT_SOURCE_DIR}/docs/operators.md COMMENT "Writing docs/operators.md" VERBATIM)
