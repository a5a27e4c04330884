/*
 * Runs a compiled program on a Vulkan device: all of docs/program.md, versions 1 to 6, in one file.
 *
 *     cc -O2 -o runner runner.c -lvulkan -lcjson
 *     ./runner DIR A=a.npy B=b.npy -o out                        writes out/result0.npy, ...
 *     ./runner DIR prefill tokens=t.npy past=0 -o 0 --then decode token=n.npy past=7 -o 1
 *
 * Runs behind --then share states. It keeps every buffer in memory that the host sees, which is simple and, on a
 * discrete device, slow: a runner for use would copy weights and states to the device's own memory.
 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

/* Features that older headers lack. */
typedef struct { VkStructureType sType; void *pNext; VkBool32 on[3]; } Feature;
static const struct { const char *extension, *structure; int type, count; const char *members[3]; } NEWER[] = {
    {"VK_KHR_cooperative_matrix", "VkPhysicalDeviceCooperativeMatrixFeaturesKHR", 1000506000, 2, {"cooperativeMatrix"}},
    {"VK_KHR_shader_subgroup_rotate", "VkPhysicalDeviceShaderSubgroupRotateFeatures", 1000416000, 2, {"shaderSubgroupRotate", "shaderSubgroupRotateClustered"}},
    {"VK_KHR_shader_bfloat16", "VkPhysicalDeviceShaderBfloat16FeaturesKHR", 1000141000, 3, {"shaderBFloat16Type", "shaderBFloat16DotProduct", "shaderBFloat16CooperativeMatrix"}},
};
typedef struct { VkStructureType sType; void *pNext; uint32_t m, n, k; int a, b, c, result; VkBool32 saturating; int scope; } Matrix;
typedef VkResult (VKAPI_PTR *GetMatrices)(VkPhysicalDevice, uint32_t *, Matrix *);
enum { NEWER_COUNT = sizeof NEWER / sizeof *NEWER, MOST_SETS = 4, MOST_BINDINGS = 1024, SPARE = 16, ALIGN = 256 };

static _Noreturn void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("runner: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1); /* without the driver's own ends, which expect that all is taken back */
}

static void check(VkResult result, const char *what) {
    if (result != VK_SUCCESS) die("%s failed (VkResult %d)", what, result);
}

static void *allocate(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory) die("%zu bytes of memory are not there", size);
    return memory;
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) die("%s: %s", path, strerror(errno));
    long end = ftell(file);
    rewind(file);
    if (end < 0) die("%s cannot be read", path);
    char *data = allocate((size_t)end + 1);
    if (fread(data, 1, (size_t)end, file) != (size_t)end) die("%s cannot be read", path);
    fclose(file);
    *size = (size_t)end;
    return data;
}

/* JSON: what must be there is, or the program is refused. */

static const cJSON *get(const cJSON *object, const char *key) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!value) die("program.json: %s is missing", key);
    return value;
}

static const char *text(const cJSON *object, const char *key) {
    const cJSON *value = get(object, key);
    if (!cJSON_IsString(value)) die("program.json: %s is no text", key);
    return value->valuestring;
}

static int64_t whole(const cJSON *object, const char *key) {
    const cJSON *value = get(object, key);
    if (!cJSON_IsNumber(value)) die("program.json: %s is no number", key);
    return (int64_t)value->valuedouble;
}

static const cJSON *find(const cJSON *list, const char *key, const char *name) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list) if (!strcmp(text(item, key), name)) return item;
    return NULL;
}

/* Sizes by name, and expressions of them: + - * / min(a, b) and parentheses. */

typedef struct { char name[256]; int64_t value; } Size;
typedef struct { Size *items; int count; } Sizes;

static int64_t *size_named(const Sizes *sizes, const char *name) {
    for (int i = 0; i < sizes->count; i++)
        if (!strcmp(sizes->items[i].name, name)) return &sizes->items[i].value;
    return NULL;
}

static void set_size(Sizes *sizes, const char *name, int64_t value, const char *where) {
    int64_t *known = size_named(sizes, name);
    if (known && *known != value)
        die("%s: %s is %lld, and was %lld", where, name, (long long)value, (long long)*known);
    if (known) return;
    if (strlen(name) >= sizeof sizes->items->name) die("the name of a size is too long");
    sizes->items = realloc(sizes->items, (size_t)(sizes->count + 1) * sizeof(Size));
    if (!sizes->items) die("no memory");
    strcpy(sizes->items[sizes->count].name, name);
    sizes->items[sizes->count++].value = value;
}

typedef struct { const char *text, *at; const Sizes *sizes; int depth; } Reader;

static int64_t sum(Reader *reader);

static bool next(Reader *reader, char wanted) {
    while (*reader->at == ' ') reader->at++;
    if (*reader->at != wanted) return false;
    reader->at++;
    return true;
}

static int64_t factor(Reader *reader) {
    if (reader->depth++ > 100) die("the size %s is nested too deeply", reader->text);
    int64_t value = 0;
    if (next(reader, '(')) {
        value = sum(reader);
        if (!next(reader, ')')) die("%s is no size", reader->text);
    } else if (isdigit((unsigned char)*reader->at)) {
        value = strtoll(reader->at, (char **)&reader->at, 10);
    } else {
        char name[256];
        size_t length = 0;
        while (isalnum((unsigned char)*reader->at) || *reader->at == '_') {
            if (length + 1 == sizeof name) die("%s is no size", reader->text);
            name[length++] = *reader->at++;
        }
        name[length] = 0;
        if (!strcmp(name, "min") && next(reader, '(')) {
            int64_t a = sum(reader);
            if (!next(reader, ',')) die("%s is no size", reader->text);
            int64_t b = sum(reader);
            if (!next(reader, ')')) die("%s is no size", reader->text);
            value = a < b ? a : b;
        } else {
            const int64_t *known = size_named(reader->sizes, name);
            if (!known) die("%s: the size %s is not known", reader->text, name);
            value = *known;
        }
    }
    reader->depth--;
    return value;
}

static int64_t term(Reader *reader) {
    int64_t value = factor(reader);
    for (;;) {
        if (next(reader, '*')) {
            int64_t other = factor(reader);
            if (__builtin_mul_overflow(value, other, &value)) die("%s is too large", reader->text);
        } else if (next(reader, '/')) {
            int64_t other = factor(reader);
            if (other < 1) die("%s divides by %lld", reader->text, (long long)other);
            value = value / other - (value % other < 0);
        } else return value;
    }
}

static int64_t sum(Reader *reader) {
    int64_t value = term(reader);
    for (;;) {
        if (next(reader, '+')) value += term(reader);
        else if (next(reader, '-')) value -= term(reader);
        else return value;
    }
}

static int64_t evaluate(const cJSON *size, const Sizes *sizes) {
    if (cJSON_IsNumber(size)) return (int64_t)size->valuedouble;
    if (!cJSON_IsString(size)) die("program.json: a size is neither number nor text");
    Reader reader = {size->valuestring, size->valuestring, sizes, 0};
    int64_t value = sum(&reader);
    while (*reader.at == ' ') reader.at++;
    if (*reader.at) die("%s is no size", reader.text);
    return value;
}

static bool is_name(const char *size) {
    if (!isalpha((unsigned char)*size) && *size != '_') return false;
    while (isalnum((unsigned char)*size) || *size == '_') size++;
    return !*size;
}

/* Element types: bytes, and how numpy's files call them. */

static const struct { const char *type, *numpy, *other; int bytes; } TYPES[] = {
    {"f16", "<f2", "", 2}, {"f32", "<f4", "", 4}, {"f64", "<f8", "", 8}, {"bf16", "<V2", "|V2", 2},
    {"i1", "|b1", "", 1}, {"i8", "|i1", "|u1", 1}, {"i16", "<i2", "<u2", 2}, {"i32", "<i4", "<u4", 4},
    {"i64", "<i8", "<u8", 8}, {"ui8", "|u1", "", 1}, {"ui16", "<u2", "", 2}, {"ui32", "<u4", "", 4},
    {"ui64", "<u8", "", 8},
};

static int type_of(const char *name) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (!strcmp(TYPES[i].type, name)) return (int)i;
    die("buffers of %s are not known to this runner", name);
}

typedef struct { int type, rank; int64_t shape[32]; size_t bytes; char *data; void *file; } Array;

static Array read_npy(const char *path, int type) {
    size_t size;
    Array array = {type, 0, {0}, 0, NULL, read_file(path, &size)};
    char *file = array.file;
    if (size < 12 || memcmp(file, "\x93NUMPY", 6)) die("%s is no .npy file", path);
    size_t start = file[6] == 1 ? 10 : 12, length = (uint8_t)file[8] | (size_t)(uint8_t)file[9] << 8;
    if (file[6] != 1) length |= (size_t)(uint8_t)file[10] << 16 | (size_t)(uint8_t)file[11] << 24;
    if (length > size - start) die("%s is cut off", path);
    char *header = allocate(length + 1);
    memcpy(header, file + start, length);
    char *descr = strstr(header, "'descr': '"), *shape = strstr(header, "'shape': (");
    if (!descr || !shape || !strstr(header, "'fortran_order': False"))
        die("%s: only arrays in C's order are read", path);
    descr += strlen("'descr': '");
    size_t word = strcspn(descr, "'");
    const char *names[] = {TYPES[type].numpy, TYPES[type].other};
    if (!(strlen(names[0]) == word && !strncmp(descr, names[0], word)) &&
        !(word && strlen(names[1]) == word && !strncmp(descr, names[1], word)))
        die("%s holds %.*s, and %s is wanted", path, (int)word, descr, TYPES[type].type);
    int64_t elements = 1;
    for (char *at = shape + strlen("'shape': ("); *at && *at != ')';) {
        if (!isdigit((unsigned char)*at)) { at++; continue; }
        if (array.rank == 32) die("%s has too many dimensions", path);
        int64_t count = strtoll(at, &at, 10);
        array.shape[array.rank++] = count;
        if (__builtin_mul_overflow(elements, count, &elements)) die("%s is too large", path);
    }
    array.bytes = (size_t)elements * (size_t)TYPES[type].bytes;
    array.data = file + start + length;
    if (array.bytes != size - start - length) die("%s has not as many bytes as its shape says", path);
    free(header);
    return array;
}

static void write_npy(const char *path, int type, const int64_t *shape, int rank, const void *data, size_t bytes) {
    char header[1024] = "";
    int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                          TYPES[type].numpy);
    for (int i = 0; i < rank; i++)
        length += snprintf(header + length, sizeof header - (size_t)length, "%lld,%s", (long long)shape[i],
                           i + 1 < rank ? " " : "");
    length += snprintf(header + length, sizeof header - (size_t)length, "), }");
    while ((10 + length + 1) % 64) header[length++] = ' ';
    header[length++] = '\n';
    FILE *file = fopen(path, "wb");
    if (!file) die("%s: %s", path, strerror(errno));
    fwrite("\x93NUMPY\1\0", 1, 8, file);
    fputc(length & 255, file);
    fputc(length >> 8, file);
    fwrite(header, 1, (size_t)length, file);
    fwrite(data, 1, bytes, file);
    if (fclose(file)) die("%s: %s", path, strerror(errno));
}

static const char *folder;
static cJSON *program;

/* The device. */

static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;
static VkQueue queue;
static VkCommandPool commands_pool;
static uint32_t family, memory_type;
static bool chooses_subgroups, full_subgroups;
static uint32_t offered;
static VkExtensionProperties *extensions;
static Feature newer[NEWER_COUNT];
static bool is_newer_on[NEWER_COUNT];
static VkPhysicalDeviceVulkan13Features f13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
static VkPhysicalDeviceVulkan12Features f12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &f13};
static VkPhysicalDeviceVulkan11Features f11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &f12};
static VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f11};
static VkPhysicalDeviceVulkan13Properties properties13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES};
static VkPhysicalDeviceVulkan11Properties properties11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &properties13};
static VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &properties11};

static bool has_extension(const char *name) {
    for (uint32_t e = 0; e < offered; e++) if (!strcmp(name, extensions[e].extensionName)) return true;
    return false;
}

/* What the program requires: every line of it is there, or the program is refused before the driver sees a kernel. */

#define IN(part, type, member) {#type, #member, offsetof(type, member), part}
static const struct { const char *structure, *name; size_t offset; void *part; } FEATURES[] = {
    IN(&features.features, VkPhysicalDeviceFeatures, shaderFloat64),
    IN(&features.features, VkPhysicalDeviceFeatures, shaderInt16),
    IN(&features.features, VkPhysicalDeviceFeatures, shaderInt64),
    IN(&f11, VkPhysicalDeviceVulkan11Features, storageBuffer16BitAccess),
    IN(&f12, VkPhysicalDeviceVulkan12Features, scalarBlockLayout),
    IN(&f12, VkPhysicalDeviceVulkan12Features, shaderBufferInt64Atomics),
    IN(&f12, VkPhysicalDeviceVulkan12Features, shaderFloat16),
    IN(&f12, VkPhysicalDeviceVulkan12Features, shaderInt8),
    IN(&f12, VkPhysicalDeviceVulkan12Features, shaderSharedInt64Atomics),
    IN(&f12, VkPhysicalDeviceVulkan12Features, shaderSubgroupExtendedTypes),
    IN(&f12, VkPhysicalDeviceVulkan12Features, storageBuffer8BitAccess),
    IN(&f12, VkPhysicalDeviceVulkan12Features, vulkanMemoryModel),
    IN(&f12, VkPhysicalDeviceVulkan12Features, vulkanMemoryModelDeviceScope),
    IN(&f13, VkPhysicalDeviceVulkan13Features, shaderIntegerDotProduct),
    IN(&f13, VkPhysicalDeviceVulkan13Features, shaderZeroInitializeWorkgroupMemory),
};

static bool has_feature(const char *structure, const char *name) {
    for (size_t i = 0; i < sizeof FEATURES / sizeof *FEATURES; i++)
        if (!strcmp(FEATURES[i].structure, structure) && !strcmp(FEATURES[i].name, name))
            return *(VkBool32 *)(void *)((char *)FEATURES[i].part + FEATURES[i].offset);
    for (int i = 0; i < NEWER_COUNT; i++)
        for (int member = 0; member < 3 && !strcmp(NEWER[i].structure, structure); member++)
            if (NEWER[i].members[member] && !strcmp(NEWER[i].members[member], name)) return is_newer_on[i] && newer[i].on[member];
    return false; /* or one that this runner does not know, and so does not turn on */
}

static bool has_version(const char *version) {
    int major = 0, minor = 0;
    if (sscanf(version, "%d.%d", &major, &minor) != 2) die("program.json: %s is no version", version);
    return properties.properties.apiVersion >= VK_MAKE_API_VERSION(0, (uint32_t)major, (uint32_t)minor, 0);
}

static bool has_operations(const char *bit) {
    static const char *const NAMES[] = {"BASIC", "VOTE", "ARITHMETIC", "BALLOT", "SHUFFLE", "SHUFFLE_RELATIVE", "CLUSTERED", "QUAD"};
    char name[64];
    for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        snprintf(name, sizeof name, "VK_SUBGROUP_FEATURE_%s_BIT", NAMES[i]);
        if (!strcmp(name, bit)) return properties11.subgroupSupportedOperations & 1u << i;
    }
    return false;
}

static bool has_way(const cJSON *way) {
    const cJSON *property = cJSON_GetObjectItemCaseSensitive(way, "property"), *item;
    if (cJSON_GetObjectItemCaseSensitive(way, "feature")) return has_feature(text(way, "structure"), text(way, "feature"));
    if (property) return !strcmp(text(way, "property"), "subgroupSupportedOperations") && has_operations(text(way, "bit"));
    if (cJSON_GetObjectItemCaseSensitive(way, "version")) return has_version(text(way, "version"));
    cJSON_ArrayForEach(item, get(way, "extensions"))
        for (int i = 0; i < NEWER_COUNT; i++) if (is_newer_on[i] && !strcmp(NEWER[i].extension, item->valuestring)) return true;
    return false;
}

static int64_t limit_of(const char *name) {
    const VkPhysicalDeviceLimits *limits = &properties.properties.limits;
    const struct { const char *name; int64_t value; } LIMITS[] = {
        {"maxComputeSharedMemorySize", limits->maxComputeSharedMemorySize},
        {"maxComputeWorkGroupInvocations", limits->maxComputeWorkGroupInvocations},
        {"maxComputeWorkGroupSize[0]", limits->maxComputeWorkGroupSize[0]},
        {"maxComputeWorkGroupSize[1]", limits->maxComputeWorkGroupSize[1]},
        {"maxComputeWorkGroupSize[2]", limits->maxComputeWorkGroupSize[2]},
        {"maxComputeWorkGroupCount[0]", limits->maxComputeWorkGroupCount[0]},
        {"maxComputeWorkGroupCount[1]", limits->maxComputeWorkGroupCount[1]},
        {"maxComputeWorkGroupCount[2]", limits->maxComputeWorkGroupCount[2]},
        {"maxPushConstantsSize", limits->maxPushConstantsSize},
        {"maxPerStageDescriptorStorageBuffers", limits->maxPerStageDescriptorStorageBuffers},
        {"maxStorageBufferRange", limits->maxStorageBufferRange},
    };
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++) if (!strcmp(LIMITS[i].name, name)) return LIMITS[i].value;
    die("program.json: the limit %s is not known to this runner", name);
}

static int component_of(const char *type) {
    static const char *const TYPE_NAMES[] = {"f16", "f32", "f64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"};
    for (int i = 0; i < (int)(sizeof TYPE_NAMES / sizeof *TYPE_NAMES); i++) if (!strcmp(TYPE_NAMES[i], type)) return i;
    return !strcmp(type, "bf16") ? 1000141000 : -1;
}

static bool has_matrix(const cJSON *row, const Matrix *listed, uint32_t count) {
    for (const Matrix *one = listed; one < listed + count; one++)
        if (one->m == whole(row, "m") && one->n == whole(row, "n") && one->k == whole(row, "k") && one->a == component_of(text(row, "a")) &&
            one->b == component_of(text(row, "b")) && one->c == component_of(text(row, "c")) && one->result == component_of(text(row, "result")) &&
            one->saturating == (VkBool32)cJSON_IsTrue(get(row, "saturating")) && one->scope == (!strcmp(text(row, "scope"), "Subgroup") ? 3 : 2))
            return true;
    return false;
}

static void check_matrices(const cJSON *rows) {
    const cJSON *row;
    uint32_t count = 0;
    GetMatrices ask = (GetMatrices)(void *)vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    if (ask && has_extension("VK_KHR_cooperative_matrix")) ask(physical, &count, NULL);
    Matrix *listed = allocate(count * sizeof *listed);
    for (uint32_t i = 0; i < count; i++) listed[i].sType = (VkStructureType)1000506001;
    if (count) ask(physical, &count, listed);
    cJSON_ArrayForEach(row, rows)
        if (!has_matrix(row, listed, count))
            die("the device has no cooperative matrices %lldx%lldx%lld of %s and %s", (long long)whole(row, "m"), (long long)whole(row, "n"), (long long)whole(row, "k"), text(row, "a"), text(row, "result"));
    free(listed);
}

static void check_requires(void) {
    const cJSON *requires = cJSON_GetObjectItemCaseSensitive(program, "requires"), *item, *way;
    if (!requires) return; /* a program of version 4 or older does not say it */
    if (!has_version(text(requires, "vulkan"))) die("the device has no Vulkan %s", text(requires, "vulkan"));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(requires, "features")) {
        bool there = false;
        cJSON_ArrayForEach(way, get(item, "any")) there |= has_way(way);
        if (!there) die("the device lacks %s, or this runner does not know it", text(item, "because"));
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(requires, "limits"))
        if (limit_of(text(item, "limit")) < whole(item, "least"))
            die("%s needs %s of %lld, and the device has %lld", text(item, "because"), text(item, "limit"), (long long)whole(item, "least"), (long long)limit_of(text(item, "limit")));
    check_matrices(cJSON_GetObjectItemCaseSensitive(requires, "cooperative_matrices"));
}

static void open_device(int number) {
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    check(vkCreateInstance(&info, NULL, &instance), "vkCreateInstance");
    uint32_t count = 0;
    vkEnumeratePhysicalDevices(instance, &count, NULL);
    VkPhysicalDevice *all = allocate(count * sizeof *all);
    vkEnumeratePhysicalDevices(instance, &count, all);
    if (number < 0 || (uint32_t)number >= count) die("there is no device %d: there are %u", number, count);
    physical = all[number];
    free(all);
    vkGetPhysicalDeviceProperties2(physical, &properties);
    if (properties.properties.apiVersion < VK_API_VERSION_1_3) die("the device has no Vulkan 1.3");

    /* All features that the device has, but robustness, which costs time. */
    vkEnumerateDeviceExtensionProperties(physical, NULL, &offered, NULL);
    extensions = allocate(offered * sizeof *extensions);
    vkEnumerateDeviceExtensionProperties(physical, NULL, &offered, extensions);
    const char *enabled[NEWER_COUNT];
    uint32_t used = 0;
    for (int i = 0; i < NEWER_COUNT; i++) {
        if (!has_extension(NEWER[i].extension)) continue;
        newer[i] = (Feature){(VkStructureType)NEWER[i].type, features.pNext, {0}};
        features.pNext = &newer[i];
        enabled[used++] = NEWER[i].extension;
        is_newer_on[i] = true;
    }
    vkGetPhysicalDeviceFeatures2(physical, &features);
    features.features.robustBufferAccess = VK_FALSE;
    f13.robustImageAccess = VK_FALSE;
    chooses_subgroups = f13.subgroupSizeControl;
    full_subgroups = f13.computeFullSubgroups;

    uint32_t families = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &families, NULL);
    VkQueueFamilyProperties *kinds = allocate(families * sizeof *kinds);
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &families, kinds);
    for (family = 0; family < families && !(kinds[family].queueFlags & VK_QUEUE_COMPUTE_BIT);) family++;
    if (family == families) die("the device computes nothing");
    free(kinds);
    check_requires();
    float priority = 1;
    VkDeviceQueueCreateInfo queues = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = family, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo make = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &features, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queues, .enabledExtensionCount = used, .ppEnabledExtensionNames = enabled};
    check(vkCreateDevice(physical, &make, NULL, &device), "vkCreateDevice");
    vkGetDeviceQueue(device, family, 0, &queue);
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
    check(vkCreateCommandPool(device, &pool, NULL, &commands_pool), "vkCreateCommandPool");

    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    for (memory_type = 0; memory_type < memory.memoryTypeCount; memory_type++)
        if ((memory.memoryTypes[memory_type].propertyFlags & wanted) == wanted) return;
    die("the device has no memory that the host sees");
}

/* A buffer with memory of its own, mapped. */

typedef struct { VkBuffer buffer; VkDeviceMemory memory; char *data; size_t bytes; } Storage;

static Storage new_storage(size_t bytes) {
    size_t padded = ((bytes + SPARE + ALIGN - 1) / ALIGN) * ALIGN;
    Storage storage = {.bytes = bytes};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = padded, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
    check(vkCreateBuffer(device, &info, NULL, &storage.buffer), "vkCreateBuffer");
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, storage.buffer, &needs);
    if (!(needs.memoryTypeBits & 1u << memory_type)) die("a buffer cannot lie in memory that the host sees");
    VkMemoryAllocateInfo take = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = memory_type};
    check(vkAllocateMemory(device, &take, NULL, &storage.memory), "vkAllocateMemory");
    check(vkBindBufferMemory(device, storage.buffer, storage.memory, 0), "vkBindBufferMemory");
    check(vkMapMemory(device, storage.memory, 0, VK_WHOLE_SIZE, 0, (void **)&storage.data), "vkMapMemory");
    return storage;
}

static void free_storage(Storage storage) {
    vkDestroyBuffer(device, storage.buffer, NULL);
    vkFreeMemory(device, storage.memory, NULL);
}

/* The program. */

typedef struct { char *name; Storage storage; } Kept;

static Kept *kept;
static int kept_count;
static cJSON *weights_header;
static char *weights_data;
static size_t weights_size;

static void load_program(void) {
    char path[4096];
    size_t size;
    snprintf(path, sizeof path, "%s/program.json", folder);
    char *data = read_file(path, &size);
    program = cJSON_ParseWithLength(data, size);
    free(data);
    if (!program) die("%s is not JSON", path);
    int64_t version = whole(program, "version");
    if (strcmp(text(program, "schema"), "xdsl-spirv-program") || version < 1 || version > 6)
        die("%s: version %lld of %s is not known: 1 to 6 are", path, (long long)version, text(program, "schema"));
    const cJSON *weights = cJSON_GetObjectItemCaseSensitive(program, "weights");
    if (!cJSON_IsString(weights)) return;
    snprintf(path, sizeof path, "%s/%s", folder, weights->valuestring);
    weights_data = read_file(path, &weights_size);
    uint64_t length = 0;
    if (weights_size >= 8) memcpy(&length, weights_data, 8);
    if (weights_size < 8 || length > weights_size - 8) die("%s is cut off", path);
    weights_header = cJSON_ParseWithLength(weights_data + 8, length);
    if (!weights_header) die("%s has no header", path);
    weights_data += 8 + length;
    weights_size -= 8 + length;
}

static void fill_weight(const char *name, char *to, size_t bytes) {
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(weights_header, name);
    if (!entry) die("the weights' file has no %s", name);
    const cJSON *offsets = get(entry, "data_offsets");
    double start = cJSON_GetArrayItem(offsets, 0)->valuedouble, end = cJSON_GetArrayItem(offsets, 1)->valuedouble;
    if (end - start != (double)bytes || start < 0 || end > (double)weights_size)
        die("the weight %s has %g bytes, and %zu are wanted", name, end - start, bytes);
    memcpy(to, weights_data + (size_t)start, bytes);
}

static void fill_first(const cJSON *buffer, char *to, size_t bytes, int type) {
    const cJSON *first = cJSON_GetObjectItemCaseSensitive(buffer, "first");
    if (!first || cJSON_IsNull(first)) { fill_weight(text(buffer, "name"), to, bytes); return; }
    double value = first->valuedouble;
    if (value == 0) { memset(to, 0, bytes); return; }
    const char *name = TYPES[type].type;
    for (size_t at = 0; at < bytes; at += (size_t)TYPES[type].bytes) {
        float single = (float)value;
        int64_t integer = (int64_t)value;
        if (!strcmp(name, "f32")) memcpy(to + at, &single, 4);
        else if (!strcmp(name, "f64")) memcpy(to + at, &value, 8);
        else if (*name == 'i' || *name == 'u') memcpy(to + at, &integer, (size_t)TYPES[type].bytes);
        else die("a state of %s begins with %g: this runner fills it with 0 only", name, value);
    }
}

static int64_t elements_of(const cJSON *buffer, const Sizes *sizes) {
    int64_t elements = 1;
    const cJSON *size;
    cJSON_ArrayForEach(size, get(buffer, "shape"))
        if (__builtin_mul_overflow(elements, evaluate(size, sizes), &elements) || elements < 0 || elements > INT32_MAX)
            die("the buffer %s is too large", text(buffer, "name"));
    return elements;
}

/* Weights and states: made once, whatever function asks first. */
static Storage shared_storage(const cJSON *buffer) {
    const char *name = text(buffer, "name");
    for (int i = 0; i < kept_count; i++)
        if (!strcmp(kept[i].name, name)) return kept[i].storage;
    int type = type_of(text(buffer, "type"));
    Sizes none = {0};
    size_t bytes = (size_t)elements_of(buffer, &none) * (size_t)TYPES[type].bytes;
    Storage storage = new_storage(bytes);
    if (!strcmp(text(buffer, "kind"), "state")) fill_first(buffer, storage.data, bytes, type);
    else fill_weight(name, storage.data, bytes);
    kept = realloc(kept, (size_t)(kept_count + 1) * sizeof *kept);
    if (!kept) die("no memory");
    kept[kept_count++] = (Kept){strdup(name), storage};
    return storage;
}

/* Pipelines. */

typedef struct { VkPipeline pipeline; VkPipelineLayout layout; VkDescriptorSetLayout sets[MOST_SETS]; VkShaderModule module; int set_count; uint32_t push_bytes; } Pipeline;

static size_t scalar_bytes(const char *type) { return !strcmp(type, "i1") ? 4 : (size_t)TYPES[type_of(type)].bytes; }

static void put_scalar(char *to, const char *type, double value) {
    float single = (float)value;
    int64_t integer = (int64_t)value;
    if (!strcmp(type, "f32")) memcpy(to, &single, 4);
    else if (!strcmp(type, "f64")) memcpy(to, &value, 8);
    else if (*type == 'i' || *type == 'u') memcpy(to, &integer, scalar_bytes(type));
    else die("constants of %s are not known to this runner", type);
}

static Pipeline new_pipeline(const cJSON *dispatch) {
    Pipeline made = {0};
    char path[4096];
    size_t size;
    const cJSON *kernel = find(get(program, "kernels"), "name", text(dispatch, "kernel"));
    if (!kernel) die("there is no kernel %s", text(dispatch, "kernel"));
    const cJSON *entry = find(get(kernel, "entry_points"), "name", text(dispatch, "entry_point"));
    if (!entry) die("%s has no entry point %s", text(kernel, "name"), text(dispatch, "entry_point"));
    snprintf(path, sizeof path, "%s/%s", folder, text(kernel, "binary"));
    char *code = read_file(path, &size);
    VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size, .pCode = (const uint32_t *)(const void *)code};
    check(vkCreateShaderModule(device, &module, NULL, &made.module), path);
    free(code);

    const cJSON *binding, *constant;
    uint32_t counts[MOST_SETS] = {0};
    VkDescriptorSetLayoutBinding *bindings[MOST_SETS];
    int total = cJSON_GetArraySize(get(dispatch, "bindings"));
    for (int s = 0; s < MOST_SETS; s++) bindings[s] = allocate((size_t)total * sizeof **bindings);
    cJSON_ArrayForEach(binding, get(dispatch, "bindings")) {
        int64_t set = whole(binding, "set"), place = whole(binding, "binding");
        if (set < 0 || set >= MOST_SETS || place < 0 || place >= MOST_BINDINGS) die("a binding is out of range");
        if (set >= made.set_count) made.set_count = (int)set + 1;
        bindings[set][counts[set]++] = (VkDescriptorSetLayoutBinding){.binding = (uint32_t)place, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = 1, .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    }
    for (int s = 0; s < MOST_SETS; s++) {
        VkDescriptorSetLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = counts[s], .pBindings = bindings[s]};
        if (s < made.set_count) check(vkCreateDescriptorSetLayout(device, &info, NULL, &made.sets[s]), "vkCreateDescriptorSetLayout");
        free(bindings[s]);
    }
    cJSON_ArrayForEach(constant, get(dispatch, "push_constants")) {
        uint32_t end = (uint32_t)whole(constant, "offset") + (uint32_t)scalar_bytes(text(constant, "type"));
        if (end > made.push_bytes) made.push_bytes = (end + 3) / 4 * 4;
    }
    if (made.push_bytes > properties.properties.limits.maxPushConstantsSize) die("too many push constants");
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, made.push_bytes};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = (uint32_t)made.set_count, .pSetLayouts = made.sets, .pushConstantRangeCount = made.push_bytes ? 1 : 0, .pPushConstantRanges = &range};
    check(vkCreatePipelineLayout(device, &layout, NULL, &made.layout), "vkCreatePipelineLayout");

    const cJSON *given = get(dispatch, "spec_constants"), *declared = get(kernel, "spec_constants");
    VkSpecializationMapEntry *entries = allocate((size_t)cJSON_GetArraySize(given) * sizeof *entries);
    char *values = allocate((size_t)cJSON_GetArraySize(given) * 8);
    VkSpecializationInfo specialization = {.pMapEntries = entries, .pData = values};
    cJSON_ArrayForEach(constant, given) {
        const cJSON *known = NULL, *one;
        cJSON_ArrayForEach(one, declared) if (whole(one, "id") == whole(constant, "id")) known = one;
        if (!known) die("%s has no constant %lld", text(kernel, "name"), (long long)whole(constant, "id"));
        const cJSON *value = get(constant, "value");
        size_t bytes = scalar_bytes(text(known, "type"));
        put_scalar(values + specialization.dataSize, text(known, "type"), cJSON_IsBool(value) ? cJSON_IsTrue(value) : value->valuedouble);
        entries[specialization.mapEntryCount++] = (VkSpecializationMapEntry){(uint32_t)whole(constant, "id"), (uint32_t)specialization.dataSize, bytes};
        specialization.dataSize += bytes;
    }
    uint32_t wanted = (uint32_t)whole(program, "subgroup_size");
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroups = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, .requiredSubgroupSize = wanted};
    bool chosen = chooses_subgroups && wanted >= properties13.minSubgroupSize && wanted <= properties13.maxSubgroupSize;
    if (!chosen && wanted != properties11.subgroupSize) die("the program needs subgroups of %u invocations", wanted);
    const cJSON *workgroup = get(entry, "workgroup_size");
    bool full = chosen && full_subgroups && (uint32_t)cJSON_GetArrayItem(workgroup, 0)->valuedouble % wanted == 0;
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .layout = made.layout,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .pNext = chosen ? &subgroups : NULL, .flags = full ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0, .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = made.module, .pName = text(dispatch, "entry_point"), .pSpecializationInfo = &specialization},
    };
    check(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &made.pipeline), path);
    free(entries);
    free(values);
    return made;
}

static void free_pipeline(Pipeline made) {
    vkDestroyPipeline(device, made.pipeline, NULL);
    vkDestroyPipelineLayout(device, made.layout, NULL);
    for (int s = 0; s < made.set_count; s++) vkDestroyDescriptorSetLayout(device, made.sets[s], NULL);
    vkDestroyShaderModule(device, made.module, NULL);
}

/* One run of a function. */

/* The dispatch behind another one: a loop's last is followed by its first, as often as it has steps. */
static int following(const cJSON *loops, int at, Sizes *sizes) {
    const cJSON *loop;
    cJSON_ArrayForEach(loop, loops) {
        int first = (int)whole(loop, "first");
        if (at < first || first + (int)whole(loop, "dispatches") != at + 1) continue;
        int64_t *counter = size_named(sizes, text(loop, "counter"));
        if (++*counter < evaluate(get(loop, "steps"), sizes)) return first;
    }
    at++;
    cJSON_ArrayForEach(loop, loops) {
        if ((int)whole(loop, "first") != at) continue;
        if (evaluate(get(loop, "steps"), sizes) > 0) set_size(sizes, text(loop, "counter"), 0, "a loop");
        else at += (int)whole(loop, "dispatches");
    }
    return at;
}

typedef struct { const char *name, *value; } Given;

static void run(const cJSON *function, const Given *given, int count, const char *output) {
    const cJSON *buffers = get(function, "buffers"), *item, *size;
    Sizes sizes = {0};
    Array arrays[256];
    bool taken[256] = {0};
    int argument = 0;
    if (cJSON_GetArraySize(get(function, "arguments")) > 256) die("too many arguments");
    cJSON_ArrayForEach(item, get(function, "arguments")) {
        const cJSON *buffer = find(buffers, "name", item->valuestring);
        const char *kind = text(buffer, "kind");
        int number = argument++;
        arrays[number] = (Array){.type = -1};
        if (strcmp(kind, "input") && strcmp(kind, "scalar")) continue;
        const char *value = NULL;
        for (int i = 0; i < count; i++)
            if (!strcmp(given[i].name, item->valuestring)) { value = given[i].value; taken[i] = true; }
        if (!value) die("%s is not given: write %s=%s", item->valuestring, item->valuestring, strcmp(kind, "scalar") ? "FILE.npy" : "NUMBER");
        if (!strcmp(kind, "scalar")) {
            char *end;
            long long scalar = strtoll(value, &end, 10);
            if (*end || end == value || scalar < 0 || scalar > INT32_MAX) die("%s is no number from 0 to 2^31 - 1: %s", item->valuestring, value);
            set_size(&sizes, item->valuestring, scalar, item->valuestring);
            continue;
        }
        Array array = arrays[number] = read_npy(value, type_of(text(buffer, "type")));
        const cJSON *shape = get(buffer, "shape");
        if (array.rank != cJSON_GetArraySize(shape)) die("%s has %d dimensions, not %d", item->valuestring, array.rank, cJSON_GetArraySize(shape));
        int dimension = 0;
        cJSON_ArrayForEach(size, shape) {
            int64_t length = array.shape[dimension++];
            if (cJSON_IsString(size) && is_name(size->valuestring)) set_size(&sizes, size->valuestring, length, item->valuestring);
        }
    }
    for (int i = 0; i < count; i++) if (!taken[i]) die("there is no input %s", given[i].name);
    argument = 0;
    cJSON_ArrayForEach(item, get(function, "arguments")) {
        Array array = arrays[argument++];
        if (array.type < 0) continue;
        int dimension = 0;
        cJSON_ArrayForEach(size, get(find(buffers, "name", item->valuestring), "shape"))
            if (evaluate(size, &sizes) != array.shape[dimension++]) die("%s has another shape than the program's", item->valuestring);
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(function, "equal"))
        if (evaluate(get(item, "left"), &sizes) != evaluate(get(item, "right"), &sizes)) die("sizes do not fit: %s", text(item, "because"));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(function, "limits"))
        if (evaluate(get(item, "size"), &sizes) > evaluate(get(item, "most"), &sizes)) die("a size is too large: %s", text(item, "because"));

    /* Buffers. Temporaries that have an offset share one. */
    int total = cJSON_GetArraySize(buffers), number = 0;
    const cJSON *memory = cJSON_GetObjectItemCaseSensitive(function, "memory");
    Storage temporaries = {0};
    if (cJSON_IsNumber(memory)) temporaries = new_storage((size_t)memory->valuedouble);
    struct Bound { const cJSON *buffer; Storage storage; size_t offset, bytes; bool own; } *bound = allocate((size_t)total * sizeof *bound);
    cJSON_ArrayForEach(item, buffers) {
        struct Bound *b = &bound[number++];
        const char *kind = text(item, "kind");
        b->buffer = item;
        if (!strcmp(kind, "scalar")) continue;
        b->bytes = (size_t)elements_of(item, &sizes) * (size_t)TYPES[type_of(text(item, "type"))].bytes;
        const cJSON *offset = cJSON_GetObjectItemCaseSensitive(item, "offset");
        if (!strcmp(kind, "weight") || !strcmp(kind, "state")) b->storage = shared_storage(item);
        else if (cJSON_IsNumber(offset)) {
            b->storage = temporaries;
            b->offset = (size_t)offset->valuedouble;
            if (b->offset + b->bytes > temporaries.bytes) die("a temporary lies outside the memory");
        } else { b->storage = new_storage(b->bytes); b->own = true; }
    }
    argument = 0;
    cJSON_ArrayForEach(item, get(function, "arguments")) {
        Array array = arrays[argument++];
        for (int i = 0; array.type >= 0 && i < total; i++)
            if (!strcmp(text(bound[i].buffer, "name"), item->valuestring)) memcpy(bound[i].storage.data, array.data, array.bytes);
        if (array.type >= 0) free(array.file);
    }

    /* Commands: each dispatch behind a barrier that lets it see all that was written before. */
    const cJSON *dispatches = get(function, "dispatches");
    int steps = cJSON_GetArraySize(dispatches), position = 0;
    const cJSON **list = allocate((size_t)steps * sizeof *list), *loops = cJSON_GetObjectItemCaseSensitive(function, "loops");
    cJSON_ArrayForEach(item, dispatches) list[position++] = item;
    uint32_t descriptors = 1, sets = 1;
    cJSON_ArrayForEach(item, dispatches) { descriptors += (uint32_t)cJSON_GetArraySize(get(item, "bindings")); sets += MOST_SETS; }
    VkDescriptorPoolSize pool_size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptors};
    VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = sets, .poolSizeCount = 1, .pPoolSizes = &pool_size};
    VkDescriptorPool pool;
    check(vkCreateDescriptorPool(device, &pool_info, NULL, &pool), "vkCreateDescriptorPool");
    VkCommandBufferAllocateInfo allocation = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = commands_pool, .commandBufferCount = 1};
    VkCommandBuffer commands;
    check(vkAllocateCommandBuffers(device, &allocation, &commands), "vkAllocateCommandBuffers");
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    Pipeline *pipelines = allocate((size_t)steps * sizeof *pipelines);
    VkDescriptorSet (*sets_of)[MOST_SETS] = allocate((size_t)steps * sizeof *sets_of);
    for (int at = following(loops, -1, &sizes); at < steps; at = following(loops, at, &sizes)) {
        item = list[at];
        uint32_t grid[3];
        bool empty = false;
        for (int axis = 0; axis < 3; axis++) {
            int64_t groups = evaluate(cJSON_GetArrayItem(get(item, "grid"), axis), &sizes);
            if (groups < 0 || groups > properties.properties.limits.maxComputeWorkGroupCount[axis]) die("a grid of %lld workgroups is more than the device takes", (long long)groups);
            grid[axis] = (uint32_t)groups;
            empty |= !groups;
        }
        if (empty) continue;
        bool is_first = !pipelines[at].pipeline;
        if (is_first) pipelines[at] = new_pipeline(item);
        Pipeline pipeline = pipelines[at];
        vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline);
        VkDescriptorSet *bound_sets = sets_of[at];
        VkDescriptorSetAllocateInfo take = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = pool, .descriptorSetCount = (uint32_t)pipeline.set_count, .pSetLayouts = pipeline.sets};
        if (is_first) check(vkAllocateDescriptorSets(device, &take, bound_sets), "vkAllocateDescriptorSets");
        const cJSON *binding;
        cJSON_ArrayForEach(binding, get(item, "bindings")) {
            if (!is_first) break;
            struct Bound *b = NULL;
            for (int i = 0; i < total; i++) if (!strcmp(text(bound[i].buffer, "name"), text(binding, "buffer"))) b = &bound[i];
            if (!b || !b->storage.buffer) die("there is no buffer %s", text(binding, "buffer"));
            VkDescriptorBufferInfo part = {b->storage.buffer, b->offset, b->bytes ? (b->bytes + 3) / 4 * 4 : SPARE};
            VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = bound_sets[whole(binding, "set")], .dstBinding = (uint32_t)whole(binding, "binding"), .descriptorCount = 1, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .pBufferInfo = &part};
            vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
        }
        vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout, 0, (uint32_t)pipeline.set_count, bound_sets, 0, NULL);
        if (pipeline.push_bytes) {
            char *block = allocate(pipeline.push_bytes);
            cJSON_ArrayForEach(binding, get(item, "push_constants")) {
                const cJSON *value = get(binding, "value");
                double number_pushed = cJSON_IsString(value) ? (double)evaluate(value, &sizes) : value->valuedouble;
                put_scalar(block + whole(binding, "offset"), text(binding, "type"), number_pushed);
            }
            vkCmdPushConstants(commands, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, pipeline.push_bytes, block);
            free(block);
        }
        vkCmdDispatch(commands, grid[0], grid[1], grid[2]);
        VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT, .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT};
        vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    }
    check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    check(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
    check(vkQueueWaitIdle(queue), "vkQueueWaitIdle");

    if (output && mkdir(output, 0777) && errno != EEXIST) die("%s: %s", output, strerror(errno));
    cJSON_ArrayForEach(item, get(function, "results"))
        for (int i = 0; i < total; i++) {
            if (strcmp(text(bound[i].buffer, "name"), item->valuestring)) continue;
            int64_t shape[32];
            int rank = 0;
            cJSON_ArrayForEach(size, get(bound[i].buffer, "shape")) shape[rank++] = evaluate(size, &sizes);
            char path[4096];
            /* A model's names may hold what a file's may not. */
            int folder_length = snprintf(path, sizeof path, "%s/", output ? output : ".");
            snprintf(path + folder_length, sizeof path - (size_t)folder_length, "%s.npy", item->valuestring);
            for (char *at = path + folder_length; *at; at++) if (*at == '/') *at = '_';
            write_npy(path, type_of(text(bound[i].buffer, "type")), shape, rank, bound[i].storage.data + bound[i].offset, bound[i].bytes);
        }
    for (int i = 0; i < steps; i++) if (pipelines[i].pipeline) free_pipeline(pipelines[i]);
    for (int i = 0; i < total; i++) if (bound[i].own) free_storage(bound[i].storage);
    if (temporaries.buffer) free_storage(temporaries);
    vkFreeCommandBuffers(device, commands_pool, 1, &commands);
    vkDestroyDescriptorPool(device, pool, NULL);
    free(pipelines);
    free(sets_of);
    free(list);
    free(bound);
    free(sizes.items);
}

static const cJSON *function_named(const char *name) {
    if (!strcmp(text(program, "function"), name)) return program;
    return find(cJSON_GetObjectItemCaseSensitive(program, "functions"), "function", name);
}

int main(int count, char **words) {
    if (count < 2) die("usage: runner DIR [--device N] [FUNCTION] [NAME=FILE.npy|NUMBER ...] [-o DIR] [--then ...]");
    folder = words[1];
    int at = 2, number = 0;
    if (at + 1 < count && !strcmp(words[at], "--device")) {
        number = atoi(words[at + 1]);
        at += 2;
    }
    load_program();
    open_device(number);
    Given *given = allocate((size_t)count * sizeof *given);
    for (bool more = true; more;) {
        const cJSON *function = program;
        const char *output = NULL;
        int inputs = 0;
        more = false;
        if (at < count && *words[at] != '-' && !strchr(words[at], '=')) {
            function = function_named(words[at]);
            if (!function) die("there is no function %s", words[at]);
            at++;
        }
        for (; at < count && !more; at++) {
            char *equals = strchr(words[at], '=');
            if (!strcmp(words[at], "-o") && at + 1 < count) output = words[++at];
            else if (!strcmp(words[at], "--then")) more = true;
            else if (equals) {
                *equals = 0;
                given[inputs++] = (Given){words[at], equals + 1};
            } else die("what is %s? write NAME=FILE.npy, NAME=NUMBER, -o DIR or --then", words[at]);
        }
        run(function, given, inputs, output);
    }
    for (int i = 0; i < kept_count; i++) {
        free_storage(kept[i].storage);
        free(kept[i].name);
    }
    vkDestroyCommandPool(device, commands_pool, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    free(extensions);
    cJSON_Delete(weights_header);
    cJSON_Delete(program);
    free(given);
    free(kept);
    return 0;
}
