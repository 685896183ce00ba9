/* Asks for "exit" with the number and the way of 32-bit programs, which no host has. */
int main(void)
{
    __asm__ volatile("int $0x80" : : "a"(1), "b"(3));
    return 0;
}
