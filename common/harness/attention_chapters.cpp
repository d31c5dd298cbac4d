#include "harness/any_chapter.hpp"
#include "harness/attention_options.hpp"
#include "harness/decoding_options.hpp"
#include "harness/masked_options.hpp"
#include "harness/two_way_options.hpp"

namespace fa {

template AnyChapter::AnyChapter(Chapter<AttentionForward>);
template bool is_about<AttentionForward>(const AnyChapter&);
template const Chapter<AttentionForward>& chapter_of(const AnyChapter&);
template AnyChapter::AnyChapter(Chapter<AttentionBackward>);
template bool is_about<AttentionBackward>(const AnyChapter&);
template const Chapter<AttentionBackward>& chapter_of(const AnyChapter&);
template AnyChapter::AnyChapter(Chapter<TwoWayAttention>);
template bool is_about<TwoWayAttention>(const AnyChapter&);
template const Chapter<TwoWayAttention>& chapter_of(const AnyChapter&);
template AnyChapter::AnyChapter(Chapter<MaskedAttention>);
template bool is_about<MaskedAttention>(const AnyChapter&);
template const Chapter<MaskedAttention>& chapter_of(const AnyChapter&);
template AnyChapter::AnyChapter(Chapter<DecodingAttention>);
template bool is_about<DecodingAttention>(const AnyChapter&);
template const Chapter<DecodingAttention>& chapter_of(const AnyChapter&);

}  // namespace fa
