# The imported target `torch`: libtorch's headers and libraries as a torch wheel has them.
# Not find_package(Torch): the wheel for GPUs, which is what a package index gives on most machines, makes that demand
# a CUDA toolkit even to compile plain C++.
if(NOT Torch_DIR)
  file(GLOB FORERUN_TORCH_HINT "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/share/cmake/Torch")
  if(FORERUN_TORCH_HINT)
    list(GET FORERUN_TORCH_HINT 0 FORERUN_TORCH_HINT)
    set(Torch_DIR "${FORERUN_TORCH_HINT}" CACHE PATH "Folder of TorchConfig.cmake")
  endif()
endif()
get_filename_component(FORERUN_TORCH "${Torch_DIR}/../../.." ABSOLUTE)
if(NOT Torch_DIR OR NOT EXISTS "${FORERUN_TORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch not found (Torch_DIR is '${Torch_DIR}'). Run tools/setup.sh, or pass "
                      "-DTorch_DIR=<libtorch>/share/cmake/Torch of a libtorch of your own")
endif()
file(STRINGS "${FORERUN_TORCH}/share/cmake/Torch/TorchConfigVersion.cmake" FORERUN_TORCH_VERSION REGEX "set.PACKAGE_VERSION ")
string(REGEX MATCH "[0-9.]+[0-9]" FORERUN_TORCH_VERSION "${FORERUN_TORCH_VERSION}")
message(STATUS "libtorch ${FORERUN_TORCH_VERSION} in ${FORERUN_TORCH}")

add_library(torch INTERFACE IMPORTED)
target_include_directories(torch INTERFACE "${FORERUN_TORCH}/include" "${FORERUN_TORCH}/include/torch/csrc/api/include")
# libtorch's part for GPUs is not linked: forerun/train/device.cpp loads it where there is a driver.
foreach(name torch_cpu c10)
  add_library(forerun_lib${name} SHARED IMPORTED)
  set_target_properties(forerun_lib${name} PROPERTIES IMPORTED_LOCATION "${FORERUN_TORCH}/lib/lib${name}.so")
  target_link_libraries(torch INTERFACE forerun_lib${name})
endforeach()
