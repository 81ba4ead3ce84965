// Does not compile: the verdict is the compiler's.
int main(void) { return missing; }
