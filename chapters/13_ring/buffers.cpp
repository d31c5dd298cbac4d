#include "buffers.hpp"

#include <algorithm>

#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "harness/device_buffer.hpp"
#include "nccl.hpp"

namespace fa::ch13 {

AttentionShape shape_of(const AttentionShape& whole, const Operation& op) {
  AttentionShape shape = whole;
  shape.heads = whole.heads / op.shares;
  shape.kv_heads = whole.kv_heads / op.shares;
  shape.seq_q = op.call.queries.length();
  shape.seq_k = op.call.keys.length();
  shape.causal = op.call.causal;
  shape.scale = whole.logit_scale();
  shape.strides = {};
  const std::int64_t d = whole.head_dim;
  for (const char* name : {"q", "o", "do", "dq"})
    shape.set_strides(name, {shape.heads * d, d, whole.batch * shape.heads * d});
  for (const char* name : {"k", "v", "dk", "dv"})
    shape.set_strides(name, {shape.kv_heads * d, d, whole.batch * shape.kv_heads * d});
  return shape;
}

Buffers::Buffers(const Share& share, const AttentionShape& whole, const Engine& engine,
                 const std::vector<Plan>& plans, ncclComm_t comm) {
  for (int tensor = 0; tensor < int(std::size(kTensors)); ++tensor) {
    const bool of_backward = Name(tensor) >= Name::kDo;
    if (of_backward && plans.size() < 2) continue;
    const std::int64_t size = Name(tensor) == Name::kLse ? sizeof(float) : share.element_bytes;
    memory_[{Name(tensor)}].bytes = std::size_t(share.split.most_tokens() * share.row(Name(tensor)) * size);
  }
  for (const Plan& plan : plans) {
    for (const Step& step : plan) {
      for (const Operation& operation : step) {
        for (const auto& views : {operation.reads, operation.writes}) {
          for (const View& view : views) {
            std::size_t& bytes = memory_[view.buffer].bytes;
            bytes = std::max(bytes, std::size_t(view.end()));
          }
        }
        if (operation.kind == Kind::kAttend)
          add_workspace(engine.forward_workspace(shape_of(whole, operation)), operation.lane);
        if (operation.kind == Kind::kDifferentiate)
          add_workspace(engine.backward_workspace(shape_of(whole, operation)), operation.lane);
      }
    }
  }
  for (auto& [buffer, memory] : memory_) allocate(name_of(buffer), memory, comm);
  for (Workspace& workspace : workspace_) allocate(workspace.name, workspace.memory, nullptr);
  FA_CUDA_CHECK(cudaStreamSynchronize(nullptr));  // which has poisoned them: other streams do not wait for it
}

void Buffers::add_workspace(const std::vector<TensorSpec>& specs, int lane) {
  for (const TensorSpec& spec : specs) {
    auto found = std::ranges::find_if(workspace_, [&](const Workspace& workspace) {
      return workspace.name == spec.name && workspace.set == set_of(lane);
    });
    if (found == workspace_.end()) found = workspace_.insert(found, {spec.name, set_of(lane), {}});
    found->memory.bytes = std::max(found->memory.bytes, spec.bytes());
  }
}

void* Buffers::workspace(const std::string& name, int lane) const {
  const auto found = std::ranges::find_if(workspace_, [&](const Workspace& workspace) {
    return workspace.name == name && workspace.set == set_of(lane);
  });
  return found->memory.address.get();
}

std::size_t Buffers::workspace_bytes() const {
  std::size_t sum = 0;
  for (const auto& [buffer, memory] : memory_) sum += buffer.role == Role::kOwn ? 0 : memory.bytes;
  for (const Workspace& workspace : workspace_) sum += workspace.memory.bytes;
  return sum;
}

void Buffers::allocate(const std::string& name, Memory& memory, ncclComm_t comm) {
  if (comm == nullptr || memory.bytes == 0) {
    const auto buffer = std::make_shared<DeviceBuffer>(name, memory.bytes);
    buffer->poison();
    memory.address = std::shared_ptr<void>(buffer, buffer->get());
    return;
  }
  void *address = nullptr, *handle = nullptr;
  FA_NCCL_CHECK(ncclMemAlloc(&address, memory.bytes));
  const std::shared_ptr<void> owner(address, [](void* of) { ncclMemFree(of); });
  backend::name_allocation(address, name);
  poison(address, memory.bytes);
  FA_NCCL_CHECK(ncclCommRegister(comm, address, memory.bytes, &handle));
  memory.address =
      std::shared_ptr<void>(address, [owner, handle, comm](void*) { ncclCommDeregister(comm, handle); });
}

}  // namespace fa::ch13
