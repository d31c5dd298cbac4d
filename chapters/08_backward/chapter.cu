/// @file
/// Chapter 08 as the harness sees it.
#include "attention/standard_attention.hpp"
#include "harness/chapter.hpp"

namespace fa {
namespace {

using Shape = AttentionBackward::Shape;
using Args = AttentionBackward::Args;
using Step = Variant<AttentionBackward>;  // named with each variant below: g++ 12 gives up on bare braces

}  // namespace

AnyChapter describe_chapter() {
  return Chapter<AttentionBackward>{.name = "08_backward",
                                    .title = "The backward pass: P again, and five products of matrices",
                                    .variants = {
                                        Step{.name = "standard",
                                             .summary = "P, dP and dS in HBM, products by cuBLAS",
                                             .launch = standard_backward::launch,
                                             .traffic = standard_backward::traffic,
                                             .refuse = standard_attention::refuse,
                                             .workspace = standard_backward::workspace},
                                    }};
}

}  // namespace fa
