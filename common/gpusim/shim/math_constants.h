/// @file
/// <math_constants.h>: numbers with CUDA's names. Those that end in _F are floats.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <numbers>

// Macros, as CUDA has them: a kernel cannot use a variable of the host.
#define CUDART_INF_F (__builtin_inff())
#define CUDART_NAN_F (std::bit_cast<float>(std::uint32_t(0x7fffffff)))
#define CUDART_MIN_DENORM_F 0x1p-149f
#define CUDART_MAX_NORMAL_F (std::numeric_limits<float>::max())
#define CUDART_NEG_ZERO_F (-0.0f)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_SQRT_HALF_F (std::numbers::sqrt2_v<float> / 2)
#define CUDART_SQRT_HALF_HI_F CUDART_SQRT_HALF_F
#define CUDART_SQRT_TWO_F (std::numbers::sqrt2_v<float>)
#define CUDART_THIRD_F (float(1.0 / 3.0))
#define CUDART_PIO4_F (float(CUDART_PI / 4))
#define CUDART_PIO2_F (float(CUDART_PI / 2))
#define CUDART_3PIO4_F (float(3 * CUDART_PI / 4))
#define CUDART_2_OVER_PI_F (float(2 / CUDART_PI))
#define CUDART_SQRT_2_OVER_PI_F (float(CUDART_SQRT_2OPI))
#define CUDART_PI_F (std::numbers::pi_v<float>)
#define CUDART_L2E_F (std::numbers::log2e_v<float>)
#define CUDART_L2T_F (float(CUDART_L2T))
#define CUDART_LG2_F (float(CUDART_LG2))
#define CUDART_LGE_F (std::numbers::log10e_v<float>)
#define CUDART_LN2_F (std::numbers::ln2_v<float>)
#define CUDART_LNT_F (std::numbers::ln10_v<float>)
#define CUDART_LNPI_F (float(CUDART_LNPI))
#define CUDART_TWO_TO_M126_F 0x1p-126f
#define CUDART_TWO_TO_126_F 0x1p126f
#define CUDART_NORM_HUGE_F 3.402823466e38f
#define CUDART_TWO_TO_23_F 0x1p23f
#define CUDART_TWO_TO_24_F 0x1p24f
#define CUDART_TWO_TO_31_F 0x1p31f
#define CUDART_TWO_TO_32_F 0x1p32f

#define CUDART_INF (__builtin_inf())
#define CUDART_NAN (std::bit_cast<double>(std::uint64_t(0xfff8000000000000)))
#define CUDART_NEG_ZERO (-0.0)
#define CUDART_MIN_DENORM 0x1p-1074
#define CUDART_ZERO 0.0
#define CUDART_ONE 1.0
#define CUDART_SQRT_TWO (std::numbers::sqrt2)
#define CUDART_SQRT_HALF (std::numbers::sqrt2 / 2)
#define CUDART_THIRD (1.0 / 3.0)
#define CUDART_TWOTHIRD (2.0 / 3.0)
#define CUDART_PIO4 (CUDART_PI / 4)
#define CUDART_PIO2 (CUDART_PI / 2)
#define CUDART_3PIO4 (3 * CUDART_PI / 4)
#define CUDART_2_OVER_PI (2 / CUDART_PI)
#define CUDART_PI (std::numbers::pi)
#define CUDART_SQRT_2OPI 0.79788456080286535588
#define CUDART_L2E (std::numbers::log2e)
#define CUDART_L2T 3.3219280948873623479
#define CUDART_LG2 0.30102999566398119521
#define CUDART_LGE (std::numbers::log10e)
#define CUDART_LN2 (std::numbers::ln2)
#define CUDART_LNT (std::numbers::ln10)
#define CUDART_LNPI 1.1447298858494001741
#define CUDART_TWO_TO_23 0x1p23
#define CUDART_TWO_TO_52 0x1p52
#define CUDART_TWO_TO_53 0x1p53
#define CUDART_TWO_TO_54 0x1p54
