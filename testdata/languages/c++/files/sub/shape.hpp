#pragma once
#include <memory>
#include <string>
#include <vector>

struct Shape {
	virtual ~Shape() = default;
	virtual std::string name() const = 0;
	virtual double area() const = 0;
};

std::vector<std::unique_ptr<Shape>> shapes();
