# Tests: every tests/**/test_*.c is one Criterion program; every tests/**/run_*.c a plain one that walks a collection.
pkg_check_modules(CRITERION REQUIRED IMPORTED_TARGET criterion)
file(GLOB_RECURSE delta_test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c)
file(GLOB_RECURSE delta_runner_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/run_*.c)
file(GLOB delta_support_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.c)
if(DELTA_SANITIZE MATCHES "thread")
  # Criterion keeps its tests' memory where ThreadSanitizer has its shadow: only the plain programs can be built with it.
  set(delta_test_sources)
endif()
set(delta_default_shared ${PROJECT_SOURCE_DIR}/../shared)

function(delta_test_settings target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(${target} PRIVATE DELTA_DEFAULT_SHARED="${delta_default_shared}" DELTA_SOURCE_FOLDER="${PROJECT_SOURCE_DIR}"
                                               DELTA_BINARY_FOLDER="${PROJECT_BINARY_DIR}")
endfunction()

set(delta_support)
if(delta_support_sources)
  add_library(delta_test_support STATIC ${delta_support_sources})
  delta_test_settings(delta_test_support)
  target_link_libraries(delta_test_support PUBLIC delta_static)
  set(delta_support delta_test_support)
endif()

include(${PROJECT_SOURCE_DIR}/tests/cuda/targets.cmake)

foreach(source ${delta_test_sources} ${delta_runner_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  delta_test_settings(${name})
  if(source MATCHES "/tests/cuda/")
    delta_link_emulation(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${delta_support} ${delta_cli} delta_static Threads::Threads m)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(source IN_LIST delta_test_sources)
    target_link_libraries(${name} PRIVATE PkgConfig::CRITERION)
    add_test(NAME ${name} COMMAND ${name})
  endif()
endforeach()

# Pages name functions, files and examples that there are.
add_test(NAME docs COMMAND ${CMAKE_COMMAND} -E env CC=${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR}/scripts/check-docs)

# Memory and disk that do not behave as planned.
set(delta_surprise_models mlp,cnn,dropout_mlp,resnet_basic,bert,autoencoder)
set(delta_surprise_command run_surprises --models ${delta_surprise_models})
add_test(NAME surprises COMMAND ${delta_surprise_command} --scripts 12)
set_tests_properties(surprises PROPERTIES SKIP_RETURN_CODE 77)

# Hours of what the ordinary tests do for seconds: ctest -L long (and ctest -LE long for all others).
add_test(NAME long_kills COMMAND run_kills ${PROJECT_SOURCE_DIR}/examples/digits 1000)
set_tests_properties(long_kills PROPERTIES LABELS long TIMEOUT 7200)
add_test(NAME long_surprises COMMAND ${delta_surprise_command} --scripts 200)
set_tests_properties(long_surprises PROPERTIES LABELS long TIMEOUT 3600 SKIP_RETURN_CODE 77)
add_test(NAME long_budgets COMMAND run_budgets --graph resnet50 --batch 4 --optimizer sgd --threads 2)
set_tests_properties(long_budgets PROPERTIES LABELS long TIMEOUT 3600 SKIP_RETURN_CODE 77)
