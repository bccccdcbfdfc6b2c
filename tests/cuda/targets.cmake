# The CUDA driver as tests see it: its own sources, host code and kernels, compiled as C and C++ against the emulation of CUDA's calls in place of CUDA. Test programs have the driver
# linked in; libdelta finds its table in them as it would in the module.
#
# The emulation itself. What compiles kernels at run time: the compiler and the sanitizers of this build.
file(GLOB delta_emulation_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cuda/emulation/*.c)
add_library(delta_emulation STATIC ${delta_emulation_sources})
delta_test_settings(delta_emulation)
target_include_directories(delta_emulation BEFORE PUBLIC ${PROJECT_SOURCE_DIR}/tests/cuda/include)
target_link_libraries(delta_emulation PUBLIC Threads::Threads ${CMAKE_DL_LIBS} m)
set(delta_kernel_flags "-std=c++17 -O1 -fPIC -shared -w -ffp-contract=off")
if(DELTA_SANITIZE)
  string(APPEND delta_kernel_flags " -g -fsanitize=${DELTA_SANITIZE} -fno-sanitize-recover=all")
endif()
target_compile_definitions(
  delta_emulation
  PRIVATE DELTA_EMULATED_COMPILER="${CMAKE_CXX_COMPILER}" DELTA_EMULATED_FLAGS="${delta_kernel_flags}"
          DELTA_EMULATED_INCLUDE="${PROJECT_SOURCE_DIR}/tests/cuda/include")
if(DELTA_SANITIZE MATCHES "address")
  target_compile_definitions(delta_emulation PRIVATE DELTA_EMULATED_ASAN)
endif()
# Fibers are told of by hand.
if(DELTA_SANITIZE MATCHES "thread")
  target_compile_definitions(delta_emulation PRIVATE DELTA_EMULATED_TSAN)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/cuda/emulation/block.c ${PROJECT_SOURCE_DIR}/tests/cuda/emulation/fiber.c
                              PROPERTIES COMPILE_OPTIONS "-fno-sanitize=thread")
endif()

# Where there is a toolkit, the same sources against NVIDIA's headers in place of ours: every call that is emulated has the real one's parameters.
if(TARGET delta_cuda)
  file(GLOB delta_emulation_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cuda/include/emulated_*.h)
  foreach(header ${delta_emulation_headers})
    get_filename_component(name ${header} NAME)
    configure_file(${header} ${delta_generated}/emulated_headers/${name} COPYONLY)
  endforeach()
  add_library(delta_emulation_of_toolkit OBJECT ${delta_emulation_sources})
  delta_test_settings(delta_emulation_of_toolkit)
  target_include_directories(delta_emulation_of_toolkit BEFORE PRIVATE ${delta_generated}/emulated_headers)
  target_include_directories(delta_emulation_of_toolkit SYSTEM PRIVATE ${DELTA_CUDA_INCLUDE} ${DELTA_CUDNN_INCLUDE})
  target_compile_definitions(delta_emulation_of_toolkit PRIVATE DELTA_EMULATED_COMPILER="" DELTA_EMULATED_FLAGS="" DELTA_EMULATED_INCLUDE="")
  target_compile_options(delta_emulation_of_toolkit PRIVATE -Wno-switch) # their enumerations have values that ours leave out
endif()

# Kernels are C++ here: nvcc's words are macros of the emulation's headers. Each .cu file is compiled through a file that includes it, since the module compiles it as CUDA.
function(delta_compile_kernels target)
  set(delta_wrappers)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set(wrapper ${delta_generated}/${target}/${name}.cpp)
    file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${source}\"\n")
    list(APPEND delta_wrappers ${wrapper})
  endforeach()
  target_sources(${target} PRIVATE ${delta_wrappers})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>)
  set_target_properties(${target} PROPERTIES CXX_STANDARD 17)
endfunction()

file(GLOB delta_emulated_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/cuda/*.c)
file(GLOB delta_emulated_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/cuda/*.cu)
list(REMOVE_ITEM delta_emulated_sources ${PROJECT_SOURCE_DIR}/runtime/cuda/driver_calls.c)
add_library(delta_cuda_emulated STATIC ${delta_emulated_sources})
delta_compile_kernels(delta_cuda_emulated ${delta_emulated_kernels})
delta_test_settings(delta_cuda_emulated)
delta_cuda_texts(delta_cuda_emulated)
target_link_libraries(delta_cuda_emulated PUBLIC delta_emulation delta_static)

# The same as a module, for programs that find the driver as users do: DELTA_CUDA_MODULE names it.
add_library(delta_cuda_emulated_module MODULE ${PROJECT_SOURCE_DIR}/runtime/cuda/module.c)
delta_test_settings(delta_cuda_emulated_module)
target_link_libraries(delta_cuda_emulated_module PRIVATE delta_cuda_emulated)
set_target_properties(delta_cuda_emulated_module PROPERTIES PREFIX lib OUTPUT_NAME delta-cuda-emulated
                                                            LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_options(delta_cuda_emulated_module PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/tests/cuda/module.map)

# The cases of the CPU's kernels, for those of CUDA.
set(delta_kernel_case_sources
    ${PROJECT_SOURCE_DIR}/tests/test_cpu_kernels.c ${PROJECT_SOURCE_DIR}/tests/test_cpu_pointwise.c
    ${PROJECT_SOURCE_DIR}/tests/test_cpu_movement.c ${PROJECT_SOURCE_DIR}/tests/test_cpu_attention.c)

# The same cases without Criterion, as run_cuda_barriers.c counts them.
add_library(delta_counted_cases OBJECT ${delta_kernel_case_sources})
delta_test_settings(delta_counted_cases)
target_include_directories(delta_counted_cases BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/checks)
target_compile_definitions(delta_counted_cases PRIVATE delta_kernel_case_run=delta_counted_case_run)

# A program of tests/cuda/. Kernels that are compiled at run time find the emulation's functions in it.
function(delta_link_emulation target)
  target_link_libraries(${target} PRIVATE delta_cuda_emulated delta_emulation_kernels)
  target_link_options(${target} PRIVATE -Wl,-u,delta_cuda_module -Wl,--export-dynamic-symbol=delta_cuda_module
                                        -Wl,--export-dynamic-symbol=delta_emulated_*)
  if(target STREQUAL "test_cuda_kernels")
    target_sources(${target} PRIVATE ${delta_kernel_case_sources})
  endif()
  if(target STREQUAL "run_cuda_barriers")
    target_link_libraries(${target} PRIVATE delta_counted_cases)
    target_include_directories(${target} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/checks)
  endif()
endfunction()

# Kernels that test the emulation.
add_library(delta_emulation_kernels STATIC)
file(GLOB delta_emulation_kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cuda/*.cu)
delta_compile_kernels(delta_emulation_kernels ${delta_emulation_kernel_sources})
delta_test_settings(delta_emulation_kernels)
target_link_libraries(delta_emulation_kernels PUBLIC delta_emulation)

# Programs that walk a collection, on the emulated GPU: run_cuda_NAME of tests/run_NAME.c.
foreach(runner backend budgets models surprises)
  add_executable(run_cuda_${runner} ${PROJECT_SOURCE_DIR}/tests/run_${runner}.c ${PROJECT_SOURCE_DIR}/tests/cuda/runner.c)
  delta_test_settings(run_cuda_${runner})
  delta_link_emulation(run_cuda_${runner})
  target_link_libraries(run_cuda_${runner} PRIVATE ${delta_support} delta_static Threads::Threads m)
  set_target_properties(run_cuda_${runner} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endforeach()
target_sources(run_cuda_surprises PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda/surprise_device.c)

# What ThreadSanitizer finds; skipped in builds without it.
foreach(kind barriers races waits)
  add_test(NAME cuda_${kind} COMMAND run_cuda_${kind})
  set_tests_properties(cuda_${kind} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endforeach()
set_tests_properties(cuda_barriers PROPERTIES LABELS long)

# Budgets and surprises of all shared models, of which the ordinary tests run some.
add_test(NAME long_cuda_budgets COMMAND run_cuda_budgets --device cuda --partial half --time-limit 0.3)
add_test(NAME long_cuda_surprises COMMAND run_cuda_surprises --device cuda --scripts 52
         --models autoencoder,bert,cnn,cnn_opset11,dropout_mlp,gpt2,lstm,mlp,mlp_bce,mobilenetv2,resnet_basic,resnet_bottleneck,unet)
set_tests_properties(long_cuda_budgets long_cuda_surprises PROPERTIES LABELS long TIMEOUT 3600 SKIP_RETURN_CODE 77)

# Modules as users find them: one that opens, one that is not there, and a library that is none.
set(delta_module_environment GLIBC_TUNABLES=glibc.rtld.optional_static_tls=2000000 XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/tests/cache)
foreach(case "opens|$<TARGET_FILE:delta_cuda_emulated_module>|cuda:0 .*copies below" "missing|/nowhere.so|cuda +none: .*not loaded: /nowhere.so"
             "other|libz.so.1|module is of version unknown")
  string(REPLACE "|" ";" case "${case}")
  list(GET case 0 name)
  list(GET case 1 file)
  list(GET case 2 words)
  add_test(NAME cuda_module_${name} COMMAND deltaplan --devices)
  set_tests_properties(cuda_module_${name} PROPERTIES ENVIRONMENT "DELTA_CUDA_MODULE=${file};${delta_module_environment}"
                                                      PASS_REGULAR_EXPRESSION "${words}")
endforeach()

# A program that asks for no GPU maps nothing of CUDA's, though the module is there: the loader says which files it takes.
add_test(NAME cuda_module_unused COMMAND deltaplan ${PROJECT_SOURCE_DIR}/tests/models/mlp/model.onnx --loss cross_entropy --profile estimate --batch 4)
set_tests_properties(
  cuda_module_unused
  PROPERTIES ENVIRONMENT "LD_DEBUG=files;DELTA_CUDA_MODULE=$<TARGET_FILE:delta_cuda_emulated_module>" PASS_REGULAR_EXPRESSION "predicted step"
             FAIL_REGULAR_EXPRESSION "libdelta-cuda|libcuda[.]|libcudart|libcublas|libcudnn|libnvrtc")
# The same words are said where it is asked for.
add_test(NAME cuda_module_used COMMAND deltaplan --devices)
set_tests_properties(
  cuda_module_used PROPERTIES ENVIRONMENT "LD_DEBUG=files;DELTA_CUDA_MODULE=$<TARGET_FILE:delta_cuda_emulated_module>;${delta_module_environment}"
                              PASS_REGULAR_EXPRESSION "libdelta-cuda")
