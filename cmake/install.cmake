# Where the program is built, and what `cmake --install` puts in place: the shared library forerun with its public
# headers and its CMake package, and the forerun command.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Not build/<preset>/forerun: that is the folder of the layers.
if(TARGET forerun_cli)
  set_target_properties(forerun_cli PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endif()
if(NOT TARGET forerun)
  return()
endif()

target_compile_features(forerun INTERFACE cxx_std_20)
target_include_directories(forerun INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
# The installed library finds libtorch where the build found it. (INSTALL_RPATH_USE_LINK_PATH would leave .venv out, as
# it lies in the source folder.)
get_filename_component(FORERUN_TORCH_LIB "${Torch_DIR}/../../../lib" ABSOLUTE)
set_target_properties(forerun PROPERTIES INSTALL_RPATH "$ORIGIN;${FORERUN_TORCH_LIB}" VERSION "${PROJECT_VERSION}"
                      SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
install(TARGETS forerun EXPORT forerunTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/forerun/forerun.h" "${PROJECT_SOURCE_DIR}/forerun/diffusion.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun")
install(FILES "${PROJECT_SOURCE_DIR}/forerun/tensor/precision.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun/tensor")
install(FILES "${PROJECT_SOURCE_DIR}/forerun/formats/image.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun/formats")
install(FILES "${PROJECT_SOURCE_DIR}/forerun/train/options.h" "${PROJECT_SOURCE_DIR}/forerun/train/train_error.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun/train")
install(FILES "${PROJECT_SOURCE_DIR}/forerun/train/dflash/dflash_training.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun/train/dflash")
install(FILES "${PROJECT_SOURCE_DIR}/forerun/train/classifier/classifier_training.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun/train/classifier")
install(FILES "${PROJECT_SOURCE_DIR}/forerun/train/dit/dit_training.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun/train/dit")
install(FILES "${PROJECT_SOURCE_DIR}/forerun/train/free/free_training.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun/train/free")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/forerun/core" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/forerun"
        FILES_MATCHING PATTERN "*.h")

set(FORERUN_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/forerun")
install(EXPORT forerunTargets NAMESPACE forerun:: DESTINATION "${FORERUN_PACKAGE_DIR}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/forerunConfig.cmake.in" "${PROJECT_BINARY_DIR}/forerunConfig.cmake"
                              INSTALL_DESTINATION "${FORERUN_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/forerunConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/forerunConfig.cmake" "${PROJECT_BINARY_DIR}/forerunConfigVersion.cmake"
        DESTINATION "${FORERUN_PACKAGE_DIR}")

if(TARGET forerun_cli)
  file(RELATIVE_PATH FORERUN_LIB_FROM_BIN "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(forerun_cli PROPERTIES
                        INSTALL_RPATH "$ORIGIN/${FORERUN_LIB_FROM_BIN};${FORERUN_TORCH_LIB}")
  install(TARGETS forerun_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
