#include "harness/any_chapter.hpp"
#include "harness/softmax_options.hpp"

namespace fa {

template AnyChapter::AnyChapter(Chapter<Softmax>);
template bool is_about<Softmax>(const AnyChapter&);
template const Chapter<Softmax>& chapter_of(const AnyChapter&);

}  // namespace fa
