# Programs of the tests that need no Criterion, for machines that have none: scripts/gpu-check runs them.
file(GLOB delta_check_support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/stepper*.c)

function(delta_add_check name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(${name} PRIVATE DELTA_DEFAULT_SHARED="${PROJECT_SOURCE_DIR}/../shared" DELTA_SOURCE_FOLDER="${PROJECT_SOURCE_DIR}"
                                             DELTA_BINARY_FOLDER="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE delta_static Threads::Threads m)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/checks)
endfunction()

delta_add_check(check_models ${PROJECT_SOURCE_DIR}/tests/run_models.c ${delta_check_support})

# Kernel cases, with the few words of Criterion that their tables use.
set(delta_kernel_checks)
foreach(group kernels pointwise movement attention)
  list(APPEND delta_kernel_checks ${PROJECT_SOURCE_DIR}/tests/test_cpu_${group}.c)
endforeach()
delta_add_check(check_kernels ${PROJECT_SOURCE_DIR}/tests/checks/check_kernels.c ${delta_kernel_checks} ${PROJECT_SOURCE_DIR}/tests/support/kernel_case.c
                ${PROJECT_SOURCE_DIR}/tests/support/one_node.c ${PROJECT_SOURCE_DIR}/tests/support/support.c)
target_include_directories(check_kernels BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/checks)
