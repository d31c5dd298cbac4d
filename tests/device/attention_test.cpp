// The head of K and V for a query, and the number of keys: on the host, where every index can be tested.

#include "device/attention.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstdint>

namespace fa {
namespace {

Attention<float> of_lengths(int seq_q, int seq_k, bool causal) {
  Attention<float> attention = {};
  attention.seq_q = seq_q;
  attention.seq_k = seq_k;
  attention.causal = causal;
  return attention;
}

TEST(KvHead, NeighboursShareOne) {
  Attention<float> attention = {};
  attention.heads = 6;
  attention.kv_heads = 2;
  for (int head = 0; head < 6; ++head) EXPECT_EQ(attention.kv_head(head), head < 3 ? 0 : 1) << head;
  attention.kv_heads = 6;
  for (int head = 0; head < 6; ++head) EXPECT_EQ(attention.kv_head(head), head);
  attention.kv_heads = 1;
  for (int head = 0; head < 6; ++head) EXPECT_EQ(attention.kv_head(head), 0);
  attention.heads = attention.kv_heads = INT_MAX;
  EXPECT_EQ(attention.kv_head(INT_MAX - 1), INT_MAX - 1);
}

TEST(VisibleKeys, AllWithoutAMask) {
  for (const int query : {0, 3, 4, 100}) EXPECT_EQ(of_lengths(4, 7, false).visible_keys(query), 7);
}

// Key j is visible when j <= i + seq_k - seq_q.
TEST(VisibleKeys, FollowTheDefinitionOfTheMask) {
  for (const int seq_q : {1, 2, 5, 9}) {
    for (const int seq_k : {1, 2, 5, 9}) {
      for (int query = 0; query < seq_q; ++query) {
        int count = 0;
        for (int key = 0; key < seq_k; ++key) count += key <= query + seq_k - seq_q;
        EXPECT_EQ(of_lengths(seq_q, seq_k, true).visible_keys(query), count)
            << seq_q << ' ' << seq_k << ' ' << query;
      }
    }
  }
}

TEST(VisibleKeys, RowsBehindTheLastQueryCountAsTheLast) {
  for (const int query : {4, 5, 63, INT_MAX}) EXPECT_EQ(of_lengths(4, 7, true).visible_keys(query), 7);
}

TEST(VisibleKeys, NoLengthOverflows) {
  for (const int seq_q : {1, 2, INT_MAX / 2, INT_MAX - 1, INT_MAX}) {
    for (const int seq_k : {1, 2, INT_MAX / 2, INT_MAX - 1, INT_MAX}) {
      for (const int query : {0, 1, seq_q / 2, seq_q - 1}) {
        if (query >= seq_q) continue;
        const std::int64_t exact = std::int64_t(query) + 1 + seq_k - seq_q;
        EXPECT_EQ(of_lengths(seq_q, seq_k, true).visible_keys(query), std::max<std::int64_t>(0, exact))
            << seq_q << ' ' << seq_k << ' ' << query;
      }
    }
  }
}

}  // namespace
}  // namespace fa
