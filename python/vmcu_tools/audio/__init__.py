# SPDX-License-Identifier: Apache-2.0
"""From sound to rows of features, in integers: the front end of TensorFlow Lite Micro's networks
for speech, the same numbers on the device (lib/vmcu/audio) and here, where networks are trained."""
