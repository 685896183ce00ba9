// An exception that nobody catches.
#include <stdexcept>
#include <string>

namespace shop {
struct Counter {
    __attribute__((noinline)) int take(const std::string &what);
};
int Counter::take(const std::string &what) { throw std::runtime_error("no " + what); }
}

int main(int argc, char **)
{
    shop::Counter counter;
    return counter.take(argc > 1 ? "bread" : "milk");
}
