/// @file
/// A run of the chapter: every rank takes its share of the problem, and rank 0 has the results of all.
#pragma once

#include <iosfwd>

#include "harness/chapter.hpp"

namespace fa::ch13 {

/// The chapter as the harness sees it. @param out  where --plan prints
AnyChapter ring_chapter(std::ostream& out);

/// This rank's share of a run, whose command line all ranks have. Rank 0 alone writes files and prints.
/// @return  the exit status, of rank 0 that of the run
int run_rank(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace fa::ch13
