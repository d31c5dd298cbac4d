#include "gpusim/runtime/bulk_copy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "gpusim/shim/cuda_bf16.h"
#include "gpusim/shim/cuda_fp16.h"

namespace gpusim {
namespace {

/// Adds to a number that other CPU threads may add to.
template <class Bits, class Add>
void add_to(std::uintptr_t address, const std::byte* operand, Add&& add) {
  Bits value;
  std::memcpy(&value, operand, sizeof value);
  auto* to = reinterpret_cast<Bits*>(address);
  Bits old = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(to, &old, add(old, value), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

template <class Format>
std::uint16_t add_halves(std::uint16_t a, std::uint16_t b) {
  return float16::narrow<Format>(double(Format::widen(a)) + double(Format::widen(b)));
}

void add_elements(CUtensorMapDataType type, std::uintptr_t to, const std::byte* from, std::size_t bytes) {
  const auto all = [&]<class Bits>(Bits, auto&& add) {
    for (std::size_t i = 0; i < bytes; i += sizeof(Bits)) add_to<Bits>(to + i, from + i, add);
  };
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return all(std::uint16_t(), add_halves<float16::Binary16>);
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return all(std::uint16_t(), add_halves<float16::BFloat16>);
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return all(std::uint64_t(), [](std::uint64_t a, std::uint64_t b) {
        return std::bit_cast<std::uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
      });
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
      return all(std::uint64_t(), [](std::uint64_t a, std::uint64_t b) { return a + b; });
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
      return all(std::uint32_t(), [](std::uint32_t a, std::uint32_t b) { return a + b; });
    default:
      return all(std::uint32_t(), [](std::uint32_t a, std::uint32_t b) {
        return std::bit_cast<std::uint32_t>(std::bit_cast<float>(a) + std::bit_cast<float>(b));
      });
  }
}

}  // namespace

void BulkCopy::take_from_shared() {
  data.resize(bytes);
  for_each_chunk([&](std::uintptr_t address, std::size_t offset) {
    std::memcpy(&data[offset], reinterpret_cast<const void*>(address), 16);
  });
  has_read = true;
}

void BulkCopy::put_into_shared() const {
  for_each_chunk([&](std::uintptr_t address, std::size_t offset) {
    std::memcpy(reinterpret_cast<void*>(address), &data[offset], 16);
  });
}

void BulkCopy::copy_in_cluster() {
  if (kind == Kind::kToBlock) {
    const auto* from = reinterpret_cast<const std::byte*>(source);
    data.assign(from, from + bytes);
  }
  std::memcpy(reinterpret_cast<void*>(shared), data.data(), bytes);
}

void BulkCopy::take_from_global() {
  data.assign(bytes, std::byte(0));
  if (is_tensor() && map.nan_fill != 0) {
    const std::size_t size = map.element_bytes;
    for (std::size_t i = 0; i < bytes; ++i) data[i] = std::byte(i % size == size - 1 ? 0x7f : 0xff);
  }
  for_each_run([&](std::uintptr_t from, std::size_t offset, std::size_t n) {
    std::memcpy(&data[offset], reinterpret_cast<const void*>(from), n);
  });
}

void BulkCopy::put_into_global() const {
  const auto type = is_tensor() ? CUtensorMapDataType(map.type) : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  for_each_run([&](std::uintptr_t to, std::size_t offset, std::size_t n) {
    if (kind == Kind::kAdd) {
      add_elements(type, to, &data[offset], n);
    } else {
      std::memcpy(reinterpret_cast<void*>(to), &data[offset], n);
    }
  });
}

}  // namespace gpusim
