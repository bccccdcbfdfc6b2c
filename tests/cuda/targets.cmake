# The CUDA driver as tests see it: its own sources, host code and kernels, compiled as C and C++ against the emulation of CUDA's calls in place of CUDA. Test programs have the driver
# linked in; libdelta finds its table in them as it would in the module.
file(GLOB delta_emulated_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/cuda/*.c ${PROJECT_SOURCE_DIR}/runtime/cuda/*.cu
     ${PROJECT_SOURCE_DIR}/tests/cuda/emulation/*.c ${PROJECT_SOURCE_DIR}/tests/cuda/emulation/*.cpp)
list(REMOVE_ITEM delta_emulated_sources ${PROJECT_SOURCE_DIR}/runtime/cuda/driver_calls.c)
set(delta_emulated_kernels ${delta_emulated_sources})
list(FILTER delta_emulated_kernels INCLUDE REGEX "\\.cu$")

add_library(delta_cuda_emulated STATIC ${delta_emulated_sources})
delta_test_settings(delta_cuda_emulated)
target_include_directories(delta_cuda_emulated BEFORE PUBLIC ${PROJECT_SOURCE_DIR}/tests/cuda/include)
delta_cuda_texts(delta_cuda_emulated)
set_target_properties(delta_cuda_emulated PROPERTIES CXX_STANDARD 17)
# Kernels are C++ here; nvcc's words are macros of the emulation's headers.
set_source_files_properties(${delta_emulated_kernels} PROPERTIES LANGUAGE CXX)
target_link_libraries(delta_cuda_emulated PUBLIC delta_static Threads::Threads ${CMAKE_DL_LIBS} m)

# The same as a module, for programs that find the driver as users do: DELTA_CUDA_MODULE names it.
add_library(delta_cuda_emulated_module MODULE ${PROJECT_SOURCE_DIR}/runtime/cuda/module.c)
delta_test_settings(delta_cuda_emulated_module)
target_link_libraries(delta_cuda_emulated_module PRIVATE delta_cuda_emulated)
set_target_properties(delta_cuda_emulated_module PROPERTIES PREFIX lib OUTPUT_NAME delta-cuda-emulated
                                                            LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_options(delta_cuda_emulated_module PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/module.map)

# A program of tests/cuda/.
function(delta_link_emulation target)
  target_link_libraries(${target} PRIVATE delta_cuda_emulated)
  target_link_options(${target} PRIVATE -Wl,-u,delta_cuda_module -Wl,--export-dynamic-symbol=delta_cuda_module)
endfunction()
