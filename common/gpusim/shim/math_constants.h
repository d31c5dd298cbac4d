/// @file
/// <math_constants.h>: numbers with CUDA's names. Those that end in _F are floats.
#pragma once

#include <cstdint>
#include <limits>

#include "gpusim_bits.h"

// Macros, as CUDA has them: a kernel cannot use a variable of the host.
#define CUDART_INF_F (__builtin_inff())
#define CUDART_NAN_F (gpusim::bit_cast<float>(std::uint32_t(0x7fffffff)))
#define CUDART_MIN_DENORM_F 0x1p-149f
#define CUDART_MAX_NORMAL_F (std::numeric_limits<float>::max())
#define CUDART_NEG_ZERO_F (-0.0f)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_SQRT_HALF_F (1.4142135623730950488f / 2)
#define CUDART_SQRT_HALF_HI_F CUDART_SQRT_HALF_F
#define CUDART_SQRT_TWO_F (1.4142135623730950488f)
#define CUDART_THIRD_F (float(1.0 / 3.0))
#define CUDART_PIO4_F (float(CUDART_PI / 4))
#define CUDART_PIO2_F (float(CUDART_PI / 2))
#define CUDART_3PIO4_F (float(3 * CUDART_PI / 4))
#define CUDART_2_OVER_PI_F (float(2 / CUDART_PI))
#define CUDART_SQRT_2_OVER_PI_F (float(CUDART_SQRT_2OPI))
#define CUDART_PI_F (3.1415926535897932385f)
#define CUDART_L2E_F (1.4426950408889634074f)
#define CUDART_L2T_F (float(CUDART_L2T))
#define CUDART_LG2_F (float(CUDART_LG2))
#define CUDART_LGE_F (0.43429448190325182765f)
#define CUDART_LN2_F (0.69314718055994530942f)
#define CUDART_LNT_F (2.3025850929940456840f)
#define CUDART_LNPI_F (float(CUDART_LNPI))
#define CUDART_TWO_TO_M126_F 0x1p-126f
#define CUDART_TWO_TO_126_F 0x1p126f
#define CUDART_NORM_HUGE_F 3.402823466e38f
#define CUDART_TWO_TO_23_F 0x1p23f
#define CUDART_TWO_TO_24_F 0x1p24f
#define CUDART_TWO_TO_31_F 0x1p31f
#define CUDART_TWO_TO_32_F 0x1p32f

#define CUDART_INF (__builtin_inf())
#define CUDART_NAN (gpusim::bit_cast<double>(std::uint64_t(0xfff8000000000000)))
#define CUDART_NEG_ZERO (-0.0)
#define CUDART_MIN_DENORM 0x1p-1074
#define CUDART_ZERO 0.0
#define CUDART_ONE 1.0
#define CUDART_SQRT_TWO (1.4142135623730950488)
#define CUDART_SQRT_HALF (1.4142135623730950488 / 2)
#define CUDART_THIRD (1.0 / 3.0)
#define CUDART_TWOTHIRD (2.0 / 3.0)
#define CUDART_PIO4 (CUDART_PI / 4)
#define CUDART_PIO2 (CUDART_PI / 2)
#define CUDART_3PIO4 (3 * CUDART_PI / 4)
#define CUDART_2_OVER_PI (2 / CUDART_PI)
#define CUDART_PI (3.1415926535897932385)
#define CUDART_SQRT_2OPI 0.79788456080286535588
#define CUDART_L2E (1.4426950408889634074)
#define CUDART_L2T 3.3219280948873623479
#define CUDART_LG2 0.30102999566398119521
#define CUDART_LGE (0.43429448190325182765)
#define CUDART_LN2 (0.69314718055994530942)
#define CUDART_LNT (2.3025850929940456840)
#define CUDART_LNPI 1.1447298858494001741
#define CUDART_TWO_TO_23 0x1p23
#define CUDART_TWO_TO_52 0x1p52
#define CUDART_TWO_TO_53 0x1p53
#define CUDART_TWO_TO_54 0x1p54
