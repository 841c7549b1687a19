# SPDX-License-Identifier: Apache-2.0
"""The front end of TensorFlow Lite Micro's networks for speech, in integers, from sound to rows
of features: the same numbers on the device (lib/vmcu/audio) and here, where networks are
trained."""
