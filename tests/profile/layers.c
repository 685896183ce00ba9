/* Encrypts packets in so many layers, one call for each packet. With -DCHANGED, one function takes more instructions. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) void encrypt(uint8_t *bytes, int length, uint32_t key) {
    for (int i = 0; i < length; i++) {
        key = key * 1664525u + 1013904223u;
        bytes[i] ^= key >> 24;
    }
}

__attribute__((noinline)) uint32_t check(const uint8_t *bytes, int length) {
    uint32_t sum = 0;
    for (int i = 0; i < length; i++)
#ifdef CHANGED
        sum += bytes[i] * (i + 1u) ^ sum >> 3;
#else
        sum += bytes[i] * (i + 1u);
#endif
    return sum;
}

__attribute__((noinline)) uint32_t packet(int layers, int file) {
    uint8_t bytes[200] = {0};
    for (int layer = 0; layer < layers; layer++)
        encrypt(bytes, sizeof bytes, layer);
    uint32_t sum = check(bytes, sizeof bytes);
    return write(file, bytes, sizeof bytes) == sizeof bytes ? sum : 0;
}

int main(int argc, char **argv) {
    int layers = atoi(argv[1]), packets = atoi(argv[2]), file = open("/dev/null", O_WRONLY);
    uint32_t sum = 0;
    usleep(1000000);
    for (int i = 0; i < packets; i++)
        sum += packet(layers, file);
    return argc == 3 && sum != 1 ? 0 : 1;
}
