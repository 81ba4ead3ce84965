// C++20: concepts, ranges, coroutines, spaceship, constexpr, format-free output,
// text in UTF-8, files, random numbers, regular expressions, time.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <compare>
#include <concepts>
#include <coroutine>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <regex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <typename T>
concept Number = std::integral<T> || std::floating_point<T>;

template <Number T>
constexpr T twice(T x) { return x + x; }
static_assert(twice(21) == 42);

struct Version {
	int major, minor;
	auto operator<=>(const Version &) const = default;
};

template <typename T>
struct Generator {
	struct promise_type {
		T value;
		std::exception_ptr error;
		Generator get_return_object() { return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		std::suspend_always yield_value(T v) { value = v; return {}; }
		void return_void() {}
		void unhandled_exception() { error = std::current_exception(); }
	};
	explicit Generator(std::coroutine_handle<promise_type> h) : handle(h) {}
	Generator(const Generator &) = delete;
	~Generator() { handle.destroy(); }
	std::optional<T> next() {
		handle.resume();
		if (handle.promise().error) std::rethrow_exception(handle.promise().error);
		if (handle.done()) return {};
		return handle.promise().value;
	}
	std::coroutine_handle<promise_type> handle;
};

Generator<long> fibonacci() {
	for (long a = 0, b = 1;; std::tie(a, b) = std::tuple(b, a + b)) co_yield a;
}

Generator<int> failing() {
	co_yield 1;
	throw std::runtime_error("in a coroutine");
}

int main(int argc, char **argv) {
	auto squares = std::views::iota(1, 11) | std::views::filter([](int n) { return n % 2; }) | std::views::transform([](int n) { return n * n; });
	for (int n : squares) std::cout << n << ' ';
	std::cout << std::ranges::max(squares) << '\n';
	std::vector words{"glove", "box", "cell", "wall"};
	std::ranges::sort(words, {}, [](std::string_view s) { return s; });
	for (auto w : words | std::views::reverse | std::views::take(2)) std::cout << w << ' ';
	std::cout << (Version{1, 2} < Version{1, 10}) << std::boolalpha << (Version{1, 2} == Version{1, 2}) << '\n';

	auto f = fibonacci();
	for (int i = 0; i < 10; i++) std::cout << *f.next() << ' ';
	auto g = failing();
	std::cout << *g.next() << ' ';
	try {
		g.next();
	} catch (const std::exception &e) {
		std::cout << e.what() << '\n';
	}

	std::variant<int, std::string> v = "text";
	std::cout << std::visit([](auto &x) { std::ostringstream o; o << x; return o.str(); }, v) << ' ' << std::popcount(0xffu) << ' ' << std::numbers::pi << '\n';
	std::array a{1, 2, 3};
	std::span s{a};
	std::cout << std::accumulate(s.begin(), s.end(), 0) << ' ' << s.last(1)[0] << '\n';
	int parsed = 0;
	std::string_view digits = "1234x";
	std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
	std::smatch m;
	std::string line = "key=value";
	std::cout << parsed << ' ' << std::regex_match(line, m, std::regex(R"((\w+)=(\w+))")) << ' ' << m[2] << '\n';

	namespace fs = std::filesystem;
	fs::create_directories("d/e");
	std::ofstream("d/e/naïve.txt") << "→ 漢字\n";
	std::string back;
	std::getline(std::ifstream("d/e/naïve.txt") >> std::ws, back);
	fs::rename("d/e/naïve.txt", "d/moved");
	fs::create_symlink("moved", "d/link");
	std::error_code ec;
	fs::copy_file("/etc/shadow", "x", ec);
	std::cout << back << ' ' << fs::file_size("d/moved") << ' ' << fs::read_symlink("d/link") << ' ' << ec.value() << ' ' << fs::temp_directory_path() << ' ' << fs::current_path() << '\n';

	std::mt19937 engine(42);
	std::random_device device;
	std::cout << engine() << ' ' << (device() != device()) << '\n';
	auto day = std::chrono::sys_days{std::chrono::year{2024} / 2 / 28} + std::chrono::days{1};
	std::cout << unsigned(std::chrono::year_month_day{day}.day()) << '\n';
	try {
		std::vector<int>(3).at(3);
	} catch (const std::out_of_range &) {
		std::cout << "out of range\n";
	}
	try {
		std::vector<char> much(std::size_t(argc) << 60);
		std::cout << much.size() << '\n';
	} catch (const std::bad_alloc &) {
		std::cout << "bad_alloc\n";
	}
	std::string word;
	int n = 0;
	while (std::cin >> word) n++;
	std::cout << argc << ' ' << argv[argc - 1] << ' ' << n << std::endl;
}
