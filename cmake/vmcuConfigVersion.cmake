# SPDX-License-Identifier: Apache-2.0

# The version is the compiler's, in python/vmcu_tools/__init__.py; before 1.0 a new minor version
# may break what an older one promised.

set(init "${CMAKE_CURRENT_LIST_DIR}/../python/vmcu_tools/__init__.py")
if(NOT EXISTS "${init}")
  set(init "${CMAKE_CURRENT_LIST_DIR}/../../__init__.py")
endif()
file(STRINGS "${init}" line REGEX "^__version__ = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" PACKAGE_VERSION "${line}")

set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" ours "${PACKAGE_VERSION}")
if(NOT PACKAGE_FIND_VERSION OR (NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION
    AND "${PACKAGE_FIND_VERSION_MAJOR}.${PACKAGE_FIND_VERSION_MINOR}" VERSION_EQUAL ours))
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
