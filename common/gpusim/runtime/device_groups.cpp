#include "gpusim/runtime/device_groups.hpp"

#include "gpusim/runtime/block.hpp"

namespace gpusim::device {

#define GPUSIM_CALLER __builtin_return_address(0)

void sync_grid() { current_runner->sync_grid(GPUSIM_CALLER); }
bool is_cooperative() { return current_runner->is_cooperative(); }
bool has_cluster() { return current_runner->has_cluster(); }
Index cluster_dim() { return current_runner->cluster_dim(); }
int rank_of_shared(const void* address) { return current_runner->rank_of_shared(address); }

#undef GPUSIM_CALLER

}  // namespace gpusim::device
