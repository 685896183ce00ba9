# A program of several files, built in parallel, as archive, as library and by another language's compiler.
printf '#include <stdio.h>\nint f(int);\nint main(void) { printf("%%d\\n", f(20)); return 0; }\n' > a.c
printf 'int f(int x) { return x < 2 ? x : f(x - 1) + f(x - 2); }\n' > b.c
printf 'prog: a.o b.o\n\tgcc -o prog a.o b.o\n%%.o: %%.c\n\tgcc -O2 -g -c $<\n' > Makefile
make -s -j3 && ./prog
make -q && echo up to date
sleep 0.1; touch b.c
make -j3
ar rcs libold.a b.o && gcc a.c -L. -lold -o old && ./old
gcc -shared -fPIC -o libnew.so b.c && gcc a.c -L. -lnew -o new -Wl,-rpath,. && ./new
printf 'int broken(' > c.c
gcc -c c.c 2> errors || echo "refused with $?"
g++ -x c++ -o future - <<X && ./future
#include <future>
#include <iostream>
int main() {
    auto answer = std::async(std::launch::async, [] { return 42; });
    std::cout << answer.get() << std::endl;
    try { throw std::runtime_error("thrown"); } catch (std::exception &error) { std::cout << error.what() << "\n"; }
}
X
