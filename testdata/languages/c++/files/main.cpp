#include <iostream>

#include "sub/shape.hpp"

int main() {
	for (const auto &s : shapes()) std::cout << s->name() << ' ' << s->area() << '\n';
	return 0;
}
