/// @file
/// The functions that shim/cooperative_groups.h calls from inside a kernel, besides those of device.hpp.
#pragma once

#include "gpusim/runtime/device.hpp"

namespace gpusim::device {

/// grid.sync(): all threads of a grid that has been launched cooperatively.
void sync_grid();
/// Whether the launch is cooperative.
bool is_cooperative();
/// Whether the launch has clusters, how many blocks they have in each direction (1 without), and in which of
/// them this shared memory is.
bool has_cluster();
Index cluster_dim();
int rank_of_shared(const void* address);

}  // namespace gpusim::device
