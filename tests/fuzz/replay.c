/* replay.c - runs a fuzz target over the files of its corpus, as an ordinary test with any
 * compiler. usage: fuzz_NAME FILE_OR_FOLDER... With clang and -Dfuzz=true libFuzzer takes this
 * file's place. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path) {
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) {
        perror(path);
        return 0;
    }
    /* Of exact size, so that a sanitizer sees one byte too many. */
    const size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    const int whole = data && fread(data, 1, size, f) == size;
    if (whole) {
        LLVMFuzzerTestOneInput(data, size);
    }
    free(data);
    fclose(f);
    return whole;
}
static int run_folder(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    if (!d) {
        return run_file(path);
    }
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        char file[4096];
        if (e->d_name[0] != '.') {
            snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
            n += run_file(file);
        }
    }
    closedir(d);
    return n;
}
int main(int argc, char **argv) {
    int n = 0;
    for (int i = 1; i < argc; i++) {
        n += run_folder(argv[i]);
    }
    printf("%d inputs\n", n);
    return n ? 0 : 1;
}
