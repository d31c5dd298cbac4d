#include "ranks.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <stdexcept>

namespace fa::ch13 {
namespace {

Ranks* started = nullptr;

/// In memory that the ranks of a host share: whether one of them has said why they end.
std::atomic<int>* has_spoken = nullptr;

/// Whether this rank is the first of its host that wants to say why all end.
bool may_speak() { return has_spoken == nullptr || has_spoken->exchange(1) == 0; }

/// mpirun sends SIGTERM to all ranks when one has died. That one could say nothing.
void on_terminated(int) {
  if (may_speak()) {
    constexpr char kLine[] = "error: a rank has died or was ended: all others end, too\n";
    if (write(STDERR_FILENO, kLine, sizeof kLine - 1) < 0) _exit(3);
  }
  _exit(3);
}

/// Waits without taking a core from ranks that compute.
void wait(MPI_Request request) {
  for (int done = 0, pause_us = 20;; pause_us = std::min(2 * pause_us, 1000)) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    usleep(useconds_t(pause_us));
  }
}

}  // namespace

Ranks& Ranks::start(int& argc, char**& argv) {
  static Ranks ranks(argc, argv);
  started = &ranks;
  return ranks;
}

Ranks& Ranks::instance() {
  if (started == nullptr) throw std::logic_error("Ranks::start() comes first");
  return *started;
}

Ranks::Ranks(int& argc, char**& argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &count_);

  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_size(host, &local_count_);
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  host_ = name;

  MPI_Win window = MPI_WIN_NULL;  // lives as long as the process
  void* memory = nullptr;
  MPI_Win_allocate_shared(local_rank_ == 0 ? MPI_Aint(sizeof *has_spoken) : 0, 1, MPI_INFO_NULL, host,
                          &memory, &window);
  MPI_Aint bytes = 0;
  int unit = 0;
  MPI_Win_shared_query(window, 0, &bytes, &unit, &memory);
  if (local_rank_ == 0) new (memory) std::atomic<int>(0);
  MPI_Barrier(host);
  has_spoken = static_cast<std::atomic<int>*>(memory);
  std::signal(SIGTERM, on_terminated);
}

void Ranks::broadcast(void* data, std::size_t bytes) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(data, int(bytes), MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  wait(request);
}

std::vector<std::string> Ranks::all(const std::string& mine) {
  const int length = int(mine.size());
  std::vector<int> lengths(static_cast<std::size_t>(count_)), begins(static_cast<std::size_t>(count_));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
  wait(request);
  int end = 0;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    begins[rank] = end;
    end += lengths[rank];
  }
  std::string together(std::size_t(end), '\0');
  MPI_Iallgatherv(mine.data(), length, MPI_BYTE, together.data(), lengths.data(), begins.data(), MPI_BYTE,
                  MPI_COMM_WORLD, &request);
  wait(request);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank)
    texts.push_back(together.substr(std::size_t(begins[rank]), std::size_t(lengths[rank])));
  return texts;
}

std::vector<double> Ranks::all(const std::vector<double>& mine) {
  std::vector<double> together;
  for (const std::string& bytes :
       all(std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof mine[0]))) {
    const std::size_t before = together.size();
    together.resize(before + bytes.size() / sizeof mine[0]);
    std::memcpy(together.data() + before, bytes.data(), bytes.size());
  }
  return together;
}

std::optional<Error> Ranks::agree(const std::optional<Error>& mine) {
  std::string text;  // fields, each with a 0 at its end
  if (mine) {
    const Refusal refusal = mine->refusal.value_or(Refusal{Refusal::Reason(0), {}, {}});
    for (const std::string& field :
         {std::to_string(mine->status), mine->reason, std::to_string(int(refusal.reason)), refusal.text,
          refusal.on_command_line, mine->variant})
      text += field + '\0';
  }
  for (const std::string& theirs : all(text)) {
    if (theirs.empty()) continue;
    std::istringstream fields(theirs);
    const auto next = [&] {
      std::string field;
      std::getline(fields, field, '\0');
      return field;
    };
    Error error{.status = std::stoi(next()), .reason = next()};
    Refusal refusal{Refusal::Reason(std::stoi(next())), next(), next()};
    if (int(refusal.reason) != 0) error.refusal = refusal;
    error.variant = next();
    return error;
  }
  return std::nullopt;
}

void Ranks::finish(int status) {
  std::fflush(nullptr);
  if (status != 0) {
    // Rank 0 says why. mpirun ends it as soon as another one ends, so they wait until it has.
    if (rank_ == 0) {
      if (status == 1) std::exit(status);  // results are wrong: what is done at exit is done, as a recording
      may_speak();
    }
    std::signal(SIGTERM, SIG_DFL);
    const int most_ms = status == 1 ? 60000 : 2000;
    for (int waited_ms = 0; has_spoken->load() == 0 && waited_ms < most_ms; ++waited_ms) usleep(1000);
    _exit(status);
  }
  std::signal(SIGTERM, SIG_DFL);
  MPI_Finalize();
  std::exit(0);
}

void Ranks::end_all(const Error& error) {
  std::fflush(nullptr);
  if (may_speak()) std::fprintf(stderr, "error: rank %d: %s\n", rank_, error.reason.c_str());
  std::fflush(nullptr);
  _exit(error.status);
}

}  // namespace fa::ch13
