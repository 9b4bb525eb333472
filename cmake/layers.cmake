# What every target is compiled with.
add_library(forerun_flags INTERFACE)
target_compile_options(forerun_flags INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
target_include_directories(forerun_flags INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/include")
if(FORERUN_NATIVE)
  target_compile_options(forerun_flags INTERFACE -march=native)
endif()
if(FORERUN_SANITIZE)
  # Here and not by a build type of their own, so that xgrammar's commands are those of a build without sanitizers and
  # ccache has their results.
  target_compile_options(forerun_flags INTERFACE -fsanitize=${FORERUN_SANITIZE} $<$<CONFIG:Release>:-O2> -g1
                         -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(forerun_flags INTERFACE -fsanitize=${FORERUN_SANITIZE})
endif()

# Precompiled headers, each made once: forerun_pch_std, forerun_pch_torch, and the same with GoogleTest. All of them are
# of position independent code; programs are linked from object libraries, so that they may use them too.
set(forerun_std_headers <algorithm> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span> <string>
    <string_view> <utility> <vector> <fmt/format.h> <nlohmann/json.hpp>)
file(WRITE "${PROJECT_BINARY_DIR}/empty.cpp" "")
function(forerun_add_pch name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/empty.cpp")
  target_link_libraries(${name} PRIVATE forerun_flags fmt::fmt nlohmann_json::nlohmann_json ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()
forerun_add_pch(forerun_pch_std HEADERS ${forerun_std_headers})
forerun_add_pch(forerun_pch_torch HEADERS ${forerun_std_headers} <ATen/ATen.h> LINK torch)
if(FORERUN_TESTS)
  forerun_add_pch(forerun_pch_std_test HEADERS ${forerun_std_headers} <gtest/gtest.h> LINK GTest::gtest)
  forerun_add_pch(forerun_pch_torch_test HEADERS ${forerun_std_headers} <ATen/ATen.h> <gtest/gtest.h> LINK torch GTest::gtest)
endif()

# forerun_unity(TARGET): sources compiled several at a time, since most of a file's time goes to the headers. Files of one
# target therefore share a scope, tests too: names in their unnamed namespaces differ. FORERUN_UNITY=OFF compiles each by
# itself.
function(forerun_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FORERUN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# The suites of a test program become tests of ctest, listed when it runs.
function(forerun_discover_tests program)
  set(suites "${CMAKE_CURRENT_BINARY_DIR}/${program}_suites.cmake")
  file(GENERATE OUTPUT "${suites}" CONTENT
       "set(program \"$<TARGET_FILE:${program}>\")\ninclude(\"${PROJECT_SOURCE_DIR}/cmake/add_suites.cmake\")\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${suites}")
endfunction()

# forerun_test(NAME SOURCES ... LINK ... [TORCH]): a program of tests. With TORCH every test begins with one seed.
function(forerun_test name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LINK" ${ARGN})
  add_library(${name}_objects OBJECT ${ARG_SOURCES})
  target_link_libraries(${name}_objects PUBLIC ${ARG_LINK} forerun_flags fmt::fmt nlohmann_json::nlohmann_json
                        GTest::gtest_main)
  target_compile_definitions(${name}_objects PRIVATE FORERUN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(FORERUN_SANITIZE)
    target_compile_definitions(${name}_objects PRIVATE FORERUN_SANITIZED)  # tests/support/samples.h
  endif()
  forerun_unity(${name}_objects)
  target_compile_options(${name}_objects PRIVATE $<$<CONFIG:Release>:-O1>)  # what takes time is in the library
  if(ARG_TORCH)
    target_sources(${name}_objects PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/seeded_tests.cpp")
    target_link_libraries(${name}_objects PUBLIC torch)
    target_precompile_headers(${name}_objects REUSE_FROM forerun_pch_torch_test)
  else()
    target_precompile_headers(${name}_objects REUSE_FROM forerun_pch_std_test)
  endif()
  add_executable(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test-bin")
  target_link_libraries(${name} PRIVATE ${name}_objects)
  forerun_discover_tests(${name})
endfunction()

# forerun_layer(NAME [TORCH] DEPENDS ...): one static library of the sources in the calling folder and below,
# and one test program NAME_test of the *_test.cpp files beside them. A layer links only downward.
function(forerun_layer name)
  cmake_parse_arguments(ARG "TORCH" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  set(tests ${all})
  list(FILTER all EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  add_library(forerun_${name} STATIC ${all})
  set_target_properties(forerun_${name} PROPERTIES LINKER_LANGUAGE CXX)
  forerun_unity(forerun_${name})
  target_link_libraries(forerun_${name} PUBLIC forerun_flags ${ARG_DEPENDS})
  set(torch)
  if(ARG_TORCH)
    set(torch TORCH)
    target_link_libraries(forerun_${name} PUBLIC fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(forerun_${name} REUSE_FROM forerun_pch_torch)
  elseif(NOT name STREQUAL "core")
    target_link_libraries(forerun_${name} PUBLIC fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(forerun_${name} REUSE_FROM forerun_pch_std)
  endif()
  if(FORERUN_TESTS AND tests)
    forerun_test(${name}_test SOURCES ${tests} LINK forerun_${name} ${torch})
  endif()
endfunction()
