/// @file
/// What each variant of chapter 09 chooses: its sizes.
#pragma once

namespace fa::ch09 {

/// How a kernel divides the problem. A warpgroup has 64 queries: wgmma multiplies 64 rows at a time.
struct TileChoices {
  static constexpr int Bc = 128;           ///< keys per tile
  static constexpr int kStages = 2;        ///< tiles of K and of V in shared memory
  static constexpr int kQueryBuffers = 1;  ///< tiles of Q, which hold O in the end
  /// How much a maximum may grow before O is rescaled, in powers of 2, as in chapter 07.
  static constexpr float kRescaleThreshold = 8.0f;
};

/// One warpgroup that does everything: two or three such blocks share a multiprocessor.
template <int d>
struct OneWarpgroup : TileChoices {
  static constexpr int kConsumers = 1;
  static constexpr int Bc = d <= 64 ? 128 : 64;
};

/// One producer warpgroup and several consumers. A block has a multiprocessor to itself: 64 Ki registers. The
/// compiler gives every thread the same number; setmaxnreg moves registers from the producer to the
/// consumers.
template <int d>
struct Specialised;
template <>
struct Specialised<64> : TileChoices {  // 512 threads with 128 registers each
  static constexpr int kConsumers = 3;
  static constexpr int kProducerRegisters = 32, kConsumerRegisters = 160;
};
template <>
struct Specialised<128> : TileChoices {  // 384 threads with 168 registers each
  static constexpr int kConsumers = 2;
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
};
template <>
struct Specialised<96> : Specialised<64> {  // with 128 keys, S and P would not fit into 160 registers
  static constexpr int Bc = 96;
};
template <>
struct Specialised<192> : Specialised<128> {  // Q and four tiles of 112 keys or values take 216 KiB
  static constexpr int Bc = 112;
};
template <>
struct Specialised<256> : Specialised<128> {  // O takes 128 registers, and Q, K and V of 64 keys 192 KiB
  static constexpr int Bc = 64;
};

/// The choices that were fastest on an H200.
template <int d>
struct FinalChoices : Specialised<d> {
  static constexpr int kQueryBuffers = 2;
};
template <>
struct FinalChoices<64> : Specialised<64> {
  static constexpr int kStages = 3, kQueryBuffers = 2;
};
template <>
struct FinalChoices<192> : Specialised<192> {};  // there is no room for a second buffer of Q
template <>
struct FinalChoices<256> : Specialised<256> {};

/// The columns of V: those of K, unless the choices have others.
template <class Choices>
constexpr int value_width(int head_dim) {
  if constexpr (requires { Choices::kHeadDimV; }) {
    return Choices::kHeadDimV;
  } else {
    return head_dim;
  }
}
/// A row of a swizzled box, of which a panel consists, has 128 bytes: 64 columns.
constexpr int whole_panels(int cols) { return (cols + 63) / 64 * 64; }

/// For queries and keys of up to 192 columns and values of up to 128, as in the prefill of multi-head latent
/// attention: Q takes 48 KiB, four tiles of 128 keys or values 160 KiB.
struct NarrowValues : Specialised<128> {
  static constexpr int kHeadDimV = 128;  // kNarrowValues
};

/// What follows from the choices.
template <class Element, int kHeadDimension, class Choices>
struct HopperTiles : Choices {
  using T = Element;
  static constexpr int kHeadDim = kHeadDimension;                   ///< of Q and K
  static constexpr int kHeadDimV = value_width<Choices>(kHeadDim);  ///< of V and O
  static constexpr int Br = 64 * Choices::kConsumers;
  static constexpr int kCols = whole_panels(kHeadDim);    ///< of a tile of Q or K in shared memory
  static constexpr int kColsV = whole_panels(kHeadDimV);  ///< of a tile of V or O
  static constexpr int kThreads = 128 * (Choices::kConsumers + (Choices::kConsumers > 1));
};

}  // namespace fa::ch09
