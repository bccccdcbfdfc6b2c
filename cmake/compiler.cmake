# The compiler's flags, the same for every file of the project.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
# C++ is only what stands between oneDNN and the rest: runtime/cpu/onednn_guard.cpp.
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")
# nvcc has words of its own for most of these, and compiles kernels alone.
set(delta_host_languages $<COMPILE_LANGUAGE:C,CXX>)
add_compile_options($<${delta_host_languages}:-Wall> $<${delta_host_languages}:-Wextra>)
if(DELTA_WERROR)
  add_compile_options($<${delta_host_languages}:-Werror>)
endif()
# Contraction to fused multiply-add would make results depend on the compiler and on the instruction set.
# Growable arrays and typed allocation pass pointers to typed pointers as void **.
add_compile_options($<${delta_host_languages}:-ffp-contract=off> $<${delta_host_languages}:-fno-strict-aliasing>)
add_compile_definitions(_GNU_SOURCE)

if(DELTA_SANITIZE)
  # What sanitizers watch is compiled four times as fast with little optimization.
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  foreach(option -fsanitize=${DELTA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_compile_options("$<${delta_host_languages}:${option}>")
  endforeach()
  add_link_options(-fsanitize=${DELTA_SANITIZE})
endif()
if(DELTA_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "DELTA_FUZZ needs clang; configure with -DCMAKE_C_COMPILER=clang")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(NOT CMAKE_C_COMPILER_LAUNCHER)
  find_program(DELTA_CCACHE ccache)
  if(DELTA_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${DELTA_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${DELTA_CCACHE})
  endif()
endif()
