# Where the program is built, and what `cmake --install` puts in place: the shared library forerun with its public
# headers and its CMake package, and the forerun command.
include(CMakePackageConfigHelpers)

target_compile_features(forerun INTERFACE cxx_std_20)
target_include_directories(forerun INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_target_properties(forerun PROPERTIES VERSION "${PROJECT_VERSION}"
                      SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
# The public headers and what they include; check_layers.sh holds that this is all.
file(GLOB public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/forerun/*.h" "${PROJECT_SOURCE_DIR}/forerun/core/*.h"
     "${PROJECT_SOURCE_DIR}/forerun/train/*/*_training.h")
target_sources(forerun PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${public_headers}
               "${PROJECT_SOURCE_DIR}/forerun/base/format_error.h" "${PROJECT_SOURCE_DIR}/forerun/engine/event.h"
               "${PROJECT_SOURCE_DIR}/forerun/methods/text/draft_source.h"
               "${PROJECT_SOURCE_DIR}/forerun/formats/image.h"
               "${PROJECT_SOURCE_DIR}/forerun/tensor/precision.h" "${PROJECT_SOURCE_DIR}/forerun/train/options.h"
               "${PROJECT_SOURCE_DIR}/forerun/train/train_error.h")
install(TARGETS forerun EXPORT forerunTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

set(FORERUN_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/forerun")
install(EXPORT forerunTargets NAMESPACE forerun:: DESTINATION "${FORERUN_PACKAGE_DIR}")
# The build tree is a package as well: forerun_DIR=build/release.
export(EXPORT forerunTargets NAMESPACE forerun:: FILE "${PROJECT_BINARY_DIR}/forerunTargets.cmake")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/forerunConfig.cmake.in" "${PROJECT_BINARY_DIR}/forerunConfig.cmake"
                              INSTALL_DESTINATION "${FORERUN_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/forerunConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/forerunConfig.cmake" "${PROJECT_BINARY_DIR}/forerunConfigVersion.cmake"
        DESTINATION "${FORERUN_PACKAGE_DIR}")

if(TARGET forerun_cli)
  install(TARGETS forerun_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
