# Run by ctest: the suites of the test program `program`, each as one test. A process for each of the two thousand tests would
# spend five minutes on loading libtorch.
if(NOT EXISTS "${program}")
  get_filename_component(name "${program}" NAME)
  add_test("${name}_NOT_BUILT" "${name}_NOT_BUILT")
  return()
endif()
set(list "${program}.suites")
if("${program}" IS_NEWER_THAN "${list}")
  execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE listed RESULT_VARIABLE failed TIMEOUT 60)
  if(failed)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${failed}\n${listed}")
  endif()
  file(WRITE "${list}" "${listed}")
endif()
# Lines of suites end in a dot, those of their tests are indented; a parameter's value follows a '#'.
file(STRINGS "${list}" suites REGEX "^[^ ]+[.]([ ]+#.*)?$")
foreach(line IN LISTS suites)
  string(REGEX REPLACE "[.]([ ]+#.*)?$" "" suite "${line}")
  add_test("${suite}" "${program}" "--gtest_filter=${suite}.*" --gtest_brief=1)
  # Several at a time: each on one thread, or they would wait for each other's.
  set_tests_properties("${suite}" PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1")
endforeach()
