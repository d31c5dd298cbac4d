/// @file
/// A run of the chapter: every rank takes its part of the problem, and rank 0 has the results of all.
#pragma once

#include "harness/chapter.hpp"

namespace fa::ch13 {

/// The chapter as the harness sees it.
AnyChapter ring_chapter();

}  // namespace fa::ch13
