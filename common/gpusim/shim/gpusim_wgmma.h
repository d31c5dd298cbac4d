/// @file
/// The products of a warpgroup, and the registers that its threads give back or take.
#pragma once
