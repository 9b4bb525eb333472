# What every target is compiled with.
add_library(forerun_flags INTERFACE)
target_compile_options(forerun_flags INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
if(FORERUN_NATIVE)
  target_compile_options(forerun_flags INTERFACE -march=native)
endif()
if(FORERUN_SANITIZE)
  target_compile_options(forerun_flags INTERFACE -fsanitize=${FORERUN_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(forerun_flags INTERFACE -fsanitize=${FORERUN_SANITIZE})
endif()

# Tests run several at a time: each on one thread, or they would wait for each other's.
function(forerun_discover_tests program)
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1")
endfunction()

# For tests that use libtorch.
set(FORERUN_SEEDED_TESTS "${PROJECT_SOURCE_DIR}/tests/support/seeded_tests.cpp")

# forerun_layer(NAME DEPENDS ...): one static library of the sources in the calling folder and below,
# and one test program NAME_test of the *_test.cpp files beside them. A layer links only downward.
function(forerun_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  set(tests ${all})
  list(FILTER all EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  add_library(forerun_${name} STATIC ${all})
  set_target_properties(forerun_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(forerun_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(forerun_${name} PUBLIC forerun_flags ${ARG_DEPENDS})
  if(FORERUN_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE forerun_${name} GTest::gtest_main)
    if(NOT name MATCHES "^(core|formats)$")
      target_sources(${name}_test PRIVATE "${FORERUN_SEEDED_TESTS}")
    endif()
    target_compile_definitions(${name}_test PRIVATE FORERUN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    forerun_discover_tests(${name}_test)
  endif()
endfunction()
