/// @file
/// What LeakSanitizer does not report in test_gpusim.
///
/// A simulated thread that ends at a defect does so in the middle of its stack, which nothing unwinds: the
/// strings of its report stay allocated.
extern "C" const char*
__lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier): the sanitizer's name

const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:gpusim::BlockRunner::\nleak:gpusim::device::\nleak:__assert_fail\n";
}
