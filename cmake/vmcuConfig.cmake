# SPDX-License-Identifier: Apache-2.0

# find_package(vmcu): vmcu_add_model() and vmcu_add_audio(), see vmcu.cmake.

include("${CMAKE_CURRENT_LIST_DIR}/vmcu.cmake")
