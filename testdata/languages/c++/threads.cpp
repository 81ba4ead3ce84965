// Threads: atomics, latches, barriers, futures, stop tokens, once, local values,
// exceptions across threads.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <future>
#include <iostream>
#include <latch>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

int main() {
	std::atomic<long> sum = 0;
	std::latch begin(1);
	{
		std::vector<std::jthread> pool;
		for (int t = 0; t < 8; t++)
			pool.emplace_back([&, t] {
				begin.wait();
				for (int i = 0; i < 10000; i++) sum.fetch_add(t, std::memory_order_relaxed);
			});
		begin.count_down();
	}
	std::cout << "sum " << sum << '\n';

	std::atomic<int> phase = 0;
	int seen = 0;
	std::barrier barrier(4, [&]() noexcept { phase++; });
	{
		std::vector<std::jthread> pool;
		for (int t = 0; t < 4; t++) pool.emplace_back([&] { for (int i = 0; i < 5; i++) barrier.arrive_and_wait(); });
	}
	std::cout << "phases " << phase << '\n';

	auto f = std::async(std::launch::async, [](int n) { std::vector<int> v(n); std::iota(v.begin(), v.end(), 0); return std::accumulate(v.begin(), v.end(), 0L); }, 1000);
	std::cout << "async " << f.get() << '\n';
	auto e = std::async(std::launch::async, []() -> int { throw std::logic_error("from a thread"); });
	try {
		e.get();
	} catch (const std::exception &x) {
		std::cout << "caught " << x.what() << '\n';
	}
	std::promise<int> promise;
	std::jthread([&] { promise.set_value(42); }).detach();
	std::cout << "promise " << promise.get_future().get() << '\n';

	std::mutex mutex;
	std::condition_variable_any cond;
	std::jthread waiter([&](std::stop_token stop) {
		std::unique_lock lock(mutex);
		cond.wait(lock, stop, [] { return false; });
		seen = stop.stop_requested();
	});
	waiter.request_stop();
	waiter.join();
	std::cout << "stopped " << seen << '\n';

	std::counting_semaphore<2> slots(2);
	std::atomic<int> inside = 0, most = 0;
	{
		std::vector<std::jthread> pool;
		for (int t = 0; t < 6; t++)
			pool.emplace_back([&] {
				slots.acquire();
				int now = ++inside;
				for (int m = most; now > m && !most.compare_exchange_weak(m, now);) {}
				std::this_thread::sleep_for(5ms);
				--inside;
				slots.release();
			});
	}
	std::cout << "at once " << (most <= 2) << '\n';
	std::shared_mutex shared;
	std::shared_lock one(shared), two(shared);
	std::cout << "shared " << shared.try_lock() << '\n';
	std::once_flag once;
	int calls = 0;
	for (int i = 0; i < 3; i++) std::call_once(once, [&] { calls++; });
	std::atomic<int> flag = 0;
	std::jthread waker([&] { std::this_thread::sleep_for(5ms); flag = 1; flag.notify_one(); });
	flag.wait(0);
	std::cout << "once " << calls << " notified " << flag << std::endl;
}
