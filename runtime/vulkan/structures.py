"""
The structures of Vulkan that the runtime fills or reads.

Written by scripts/generate_vulkan.py from Khronos' registry; do not edit.
"""

import ctypes as c
from typing import Annotated

from xdsl_spirv.runtime.vulkan.layout import (
    F32,
    I32,
    U8,
    U32,
    U64,
    Chained,
    Handle,
    Plain,
    Pointer,
    Size,
    Text,
    structure,
)


@structure()
class Extent3D(Plain):
    width: U32
    height: U32
    depth: U32


@structure()
class ConformanceVersion(Plain):
    major: U8
    minor: U8
    subminor: U8
    patch: U8


@structure(0)
class ApplicationInfo(Chained):
    pApplicationName: Text
    applicationVersion: U32
    pEngineName: Text
    engineVersion: U32
    apiVersion: U32


@structure(1)
class InstanceCreateInfo(Chained):
    flags: U32
    pApplicationInfo: Pointer
    enabledLayerCount: U32
    ppEnabledLayerNames: Pointer
    enabledExtensionCount: U32
    ppEnabledExtensionNames: Pointer


@structure(2)
class DeviceQueueCreateInfo(Chained):
    flags: U32
    queueFamilyIndex: U32
    queueCount: U32
    pQueuePriorities: Pointer


@structure(3)
class DeviceCreateInfo(Chained):
    flags: U32
    queueCreateInfoCount: U32
    pQueueCreateInfos: Pointer
    enabledLayerCount: U32
    ppEnabledLayerNames: Pointer
    enabledExtensionCount: U32
    ppEnabledExtensionNames: Pointer
    pEnabledFeatures: Pointer


@structure(4)
class SubmitInfo(Chained):
    waitSemaphoreCount: U32
    pWaitSemaphores: Pointer
    pWaitDstStageMask: Pointer
    commandBufferCount: U32
    pCommandBuffers: Pointer
    signalSemaphoreCount: U32
    pSignalSemaphores: Pointer


@structure(5)
class MemoryAllocateInfo(Chained):
    allocationSize: U64
    memoryTypeIndex: U32


@structure(1000060000)
class MemoryAllocateFlagsInfo(Chained):
    flags: U32
    deviceMask: U32


@structure(12)
class BufferCreateInfo(Chained):
    flags: U32
    size: U64
    usage: U32
    sharingMode: I32
    queueFamilyIndexCount: U32
    pQueueFamilyIndices: Pointer


@structure(16)
class ShaderModuleCreateInfo(Chained):
    flags: U32
    codeSize: Size
    pCode: Pointer


@structure(18)
class PipelineShaderStageCreateInfo(Chained):
    flags: U32
    stage: U32
    module: Handle
    pName: Text
    pSpecializationInfo: Pointer


@structure(1000225001)
class PipelineShaderStageRequiredSubgroupSizeCreateInfo(Chained):
    requiredSubgroupSize: U32


@structure(29)
class ComputePipelineCreateInfo(Chained):
    flags: U32
    stage: PipelineShaderStageCreateInfo
    layout: Handle
    basePipelineHandle: Handle
    basePipelineIndex: I32


@structure(17)
class PipelineCacheCreateInfo(Chained):
    flags: U32
    initialDataSize: Size
    pInitialData: Pointer


@structure()
class PipelineCacheHeaderVersionOne(Plain):
    headerSize: U32
    headerVersion: I32
    vendorID: U32
    deviceID: U32
    pipelineCacheUUID: Annotated[c.Array[c.c_uint8], c.c_uint8 * 16]


@structure(30)
class PipelineLayoutCreateInfo(Chained):
    flags: U32
    setLayoutCount: U32
    pSetLayouts: Pointer
    pushConstantRangeCount: U32
    pPushConstantRanges: Pointer


@structure()
class PushConstantRange(Plain):
    stageFlags: U32
    offset: U32
    size: U32


@structure()
class DescriptorSetLayoutBinding(Plain):
    binding: U32
    descriptorType: I32
    descriptorCount: U32
    stageFlags: U32
    pImmutableSamplers: Pointer


@structure(32)
class DescriptorSetLayoutCreateInfo(Chained):
    flags: U32
    bindingCount: U32
    pBindings: Pointer


@structure()
class DescriptorPoolSize(Plain):
    type: I32
    descriptorCount: U32


@structure(33)
class DescriptorPoolCreateInfo(Chained):
    flags: U32
    maxSets: U32
    poolSizeCount: U32
    pPoolSizes: Pointer


@structure(34)
class DescriptorSetAllocateInfo(Chained):
    descriptorPool: Handle
    descriptorSetCount: U32
    pSetLayouts: Pointer


@structure()
class DescriptorBufferInfo(Plain):
    buffer: Handle
    offset: U64
    range: U64


@structure(35)
class WriteDescriptorSet(Chained):
    dstSet: Handle
    dstBinding: U32
    dstArrayElement: U32
    descriptorCount: U32
    descriptorType: I32
    pImageInfo: Pointer
    pBufferInfo: Pointer
    pTexelBufferView: Pointer


@structure(39)
class CommandPoolCreateInfo(Chained):
    flags: U32
    queueFamilyIndex: U32


@structure(40)
class CommandBufferAllocateInfo(Chained):
    commandPool: Handle
    level: I32
    commandBufferCount: U32


@structure(42)
class CommandBufferBeginInfo(Chained):
    flags: U32
    pInheritanceInfo: Pointer


@structure(8)
class FenceCreateInfo(Chained):
    flags: U32


@structure(11)
class QueryPoolCreateInfo(Chained):
    flags: U32
    queryType: I32
    queryCount: U32
    pipelineStatistics: U32


@structure(46)
class MemoryBarrier(Chained):
    srcAccessMask: U32
    dstAccessMask: U32


@structure()
class ImageSubresourceRange(Plain):
    aspectMask: U32
    baseMipLevel: U32
    levelCount: U32
    baseArrayLayer: U32
    layerCount: U32


@structure(45)
class ImageMemoryBarrier(Chained):
    srcAccessMask: U32
    dstAccessMask: U32
    oldLayout: I32
    newLayout: I32
    srcQueueFamilyIndex: U32
    dstQueueFamilyIndex: U32
    image: Handle
    subresourceRange: ImageSubresourceRange


@structure(14)
class ImageCreateInfo(Chained):
    flags: U32
    imageType: I32
    format: I32
    extent: Extent3D
    mipLevels: U32
    arrayLayers: U32
    samples: U32
    tiling: I32
    usage: U32
    sharingMode: I32
    queueFamilyIndexCount: U32
    pQueueFamilyIndices: Pointer
    initialLayout: I32


@structure()
class ComponentMapping(Plain):
    r: I32
    g: I32
    b: I32
    a: I32


@structure(15)
class ImageViewCreateInfo(Chained):
    flags: U32
    image: Handle
    viewType: I32
    format: I32
    components: ComponentMapping
    subresourceRange: ImageSubresourceRange


@structure(13)
class BufferViewCreateInfo(Chained):
    flags: U32
    buffer: Handle
    format: I32
    offset: U64
    range: U64


@structure(31)
class SamplerCreateInfo(Chained):
    flags: U32
    magFilter: I32
    minFilter: I32
    mipmapMode: I32
    addressModeU: I32
    addressModeV: I32
    addressModeW: I32
    mipLodBias: F32
    anisotropyEnable: U32
    maxAnisotropy: F32
    compareEnable: U32
    compareOp: I32
    minLod: F32
    maxLod: F32
    borderColor: I32
    unnormalizedCoordinates: U32


@structure()
class DescriptorImageInfo(Plain):
    sampler: Handle
    imageView: Handle
    imageLayout: I32


@structure()
class Offset3D(Plain):
    x: I32
    y: I32
    z: I32


@structure()
class ImageSubresourceLayers(Plain):
    aspectMask: U32
    mipLevel: U32
    baseArrayLayer: U32
    layerCount: U32


@structure()
class BufferImageCopy(Plain):
    bufferOffset: U64
    bufferRowLength: U32
    bufferImageHeight: U32
    imageSubresource: ImageSubresourceLayers
    imageOffset: Offset3D
    imageExtent: Extent3D


@structure()
class BufferCopy(Plain):
    srcOffset: U64
    dstOffset: U64
    size: U64


@structure(1000244001)
class BufferDeviceAddressInfo(Chained):
    buffer: Handle


@structure()
class SpecializationMapEntry(Plain):
    constantID: U32
    offset: U32
    size: Size


@structure()
class SpecializationInfo(Plain):
    mapEntryCount: U32
    pMapEntries: Pointer
    dataSize: Size
    pData: Pointer


@structure()
class MemoryRequirements(Plain):
    size: U64
    alignment: U64
    memoryTypeBits: U32


@structure()
class MemoryType(Plain):
    propertyFlags: U32
    heapIndex: U32


@structure()
class MemoryHeap(Plain):
    size: U64
    flags: U32


@structure()
class PhysicalDeviceMemoryProperties(Plain):
    memoryTypeCount: U32
    memoryTypes: Annotated[c.Array[MemoryType], MemoryType * 32]
    memoryHeapCount: U32
    memoryHeaps: Annotated[c.Array[MemoryHeap], MemoryHeap * 16]


@structure(1000059006)
class PhysicalDeviceMemoryProperties2(Chained):
    memoryProperties: PhysicalDeviceMemoryProperties


@structure(1000237000)
class PhysicalDeviceMemoryBudgetPropertiesEXT(Chained):
    heapBudget: Annotated[c.Array[c.c_uint64], c.c_uint64 * 16]
    heapUsage: Annotated[c.Array[c.c_uint64], c.c_uint64 * 16]


@structure()
class QueueFamilyProperties(Plain):
    queueFlags: U32
    queueCount: U32
    timestampValidBits: U32
    minImageTransferGranularity: Extent3D


@structure()
class ExtensionProperties(Plain):
    extensionName: Annotated[bytes, c.c_char * 256]
    specVersion: U32


@structure()
class LayerProperties(Plain):
    layerName: Annotated[bytes, c.c_char * 256]
    specVersion: U32
    implementationVersion: U32
    description: Annotated[bytes, c.c_char * 256]


@structure()
class PhysicalDeviceLimits(Plain):
    maxImageDimension1D: U32
    maxImageDimension2D: U32
    maxImageDimension3D: U32
    maxImageDimensionCube: U32
    maxImageArrayLayers: U32
    maxTexelBufferElements: U32
    maxUniformBufferRange: U32
    maxStorageBufferRange: U32
    maxPushConstantsSize: U32
    maxMemoryAllocationCount: U32
    maxSamplerAllocationCount: U32
    bufferImageGranularity: U64
    sparseAddressSpaceSize: U64
    maxBoundDescriptorSets: U32
    maxPerStageDescriptorSamplers: U32
    maxPerStageDescriptorUniformBuffers: U32
    maxPerStageDescriptorStorageBuffers: U32
    maxPerStageDescriptorSampledImages: U32
    maxPerStageDescriptorStorageImages: U32
    maxPerStageDescriptorInputAttachments: U32
    maxPerStageResources: U32
    maxDescriptorSetSamplers: U32
    maxDescriptorSetUniformBuffers: U32
    maxDescriptorSetUniformBuffersDynamic: U32
    maxDescriptorSetStorageBuffers: U32
    maxDescriptorSetStorageBuffersDynamic: U32
    maxDescriptorSetSampledImages: U32
    maxDescriptorSetStorageImages: U32
    maxDescriptorSetInputAttachments: U32
    maxVertexInputAttributes: U32
    maxVertexInputBindings: U32
    maxVertexInputAttributeOffset: U32
    maxVertexInputBindingStride: U32
    maxVertexOutputComponents: U32
    maxTessellationGenerationLevel: U32
    maxTessellationPatchSize: U32
    maxTessellationControlPerVertexInputComponents: U32
    maxTessellationControlPerVertexOutputComponents: U32
    maxTessellationControlPerPatchOutputComponents: U32
    maxTessellationControlTotalOutputComponents: U32
    maxTessellationEvaluationInputComponents: U32
    maxTessellationEvaluationOutputComponents: U32
    maxGeometryShaderInvocations: U32
    maxGeometryInputComponents: U32
    maxGeometryOutputComponents: U32
    maxGeometryOutputVertices: U32
    maxGeometryTotalOutputComponents: U32
    maxFragmentInputComponents: U32
    maxFragmentOutputAttachments: U32
    maxFragmentDualSrcAttachments: U32
    maxFragmentCombinedOutputResources: U32
    maxComputeSharedMemorySize: U32
    maxComputeWorkGroupCount: Annotated[c.Array[c.c_uint32], c.c_uint32 * 3]
    maxComputeWorkGroupInvocations: U32
    maxComputeWorkGroupSize: Annotated[c.Array[c.c_uint32], c.c_uint32 * 3]
    subPixelPrecisionBits: U32
    subTexelPrecisionBits: U32
    mipmapPrecisionBits: U32
    maxDrawIndexedIndexValue: U32
    maxDrawIndirectCount: U32
    maxSamplerLodBias: F32
    maxSamplerAnisotropy: F32
    maxViewports: U32
    maxViewportDimensions: Annotated[c.Array[c.c_uint32], c.c_uint32 * 2]
    viewportBoundsRange: Annotated[c.Array[c.c_float], c.c_float * 2]
    viewportSubPixelBits: U32
    minMemoryMapAlignment: Size
    minTexelBufferOffsetAlignment: U64
    minUniformBufferOffsetAlignment: U64
    minStorageBufferOffsetAlignment: U64
    minTexelOffset: I32
    maxTexelOffset: U32
    minTexelGatherOffset: I32
    maxTexelGatherOffset: U32
    minInterpolationOffset: F32
    maxInterpolationOffset: F32
    subPixelInterpolationOffsetBits: U32
    maxFramebufferWidth: U32
    maxFramebufferHeight: U32
    maxFramebufferLayers: U32
    framebufferColorSampleCounts: U32
    framebufferDepthSampleCounts: U32
    framebufferStencilSampleCounts: U32
    framebufferNoAttachmentsSampleCounts: U32
    maxColorAttachments: U32
    sampledImageColorSampleCounts: U32
    sampledImageIntegerSampleCounts: U32
    sampledImageDepthSampleCounts: U32
    sampledImageStencilSampleCounts: U32
    storageImageSampleCounts: U32
    maxSampleMaskWords: U32
    timestampComputeAndGraphics: U32
    timestampPeriod: F32
    maxClipDistances: U32
    maxCullDistances: U32
    maxCombinedClipAndCullDistances: U32
    discreteQueuePriorities: U32
    pointSizeRange: Annotated[c.Array[c.c_float], c.c_float * 2]
    lineWidthRange: Annotated[c.Array[c.c_float], c.c_float * 2]
    pointSizeGranularity: F32
    lineWidthGranularity: F32
    strictLines: U32
    standardSampleLocations: U32
    optimalBufferCopyOffsetAlignment: U64
    optimalBufferCopyRowPitchAlignment: U64
    nonCoherentAtomSize: U64


@structure()
class PhysicalDeviceSparseProperties(Plain):
    residencyStandard2DBlockShape: U32
    residencyStandard2DMultisampleBlockShape: U32
    residencyStandard3DBlockShape: U32
    residencyAlignedMipSize: U32
    residencyNonResidentStrict: U32


@structure()
class PhysicalDeviceProperties(Plain):
    apiVersion: U32
    driverVersion: U32
    vendorID: U32
    deviceID: U32
    deviceType: I32
    deviceName: Annotated[bytes, c.c_char * 256]
    pipelineCacheUUID: Annotated[c.Array[c.c_uint8], c.c_uint8 * 16]
    limits: PhysicalDeviceLimits
    sparseProperties: PhysicalDeviceSparseProperties


@structure(1000059001)
class PhysicalDeviceProperties2(Chained):
    properties: PhysicalDeviceProperties


@structure(1000071004)
class PhysicalDeviceIDProperties(Chained):
    deviceUUID: Annotated[c.Array[c.c_uint8], c.c_uint8 * 16]
    driverUUID: Annotated[c.Array[c.c_uint8], c.c_uint8 * 16]
    deviceLUID: Annotated[c.Array[c.c_uint8], c.c_uint8 * 8]
    deviceNodeMask: U32
    deviceLUIDValid: U32


@structure(1000196000)
class PhysicalDeviceDriverProperties(Chained):
    driverID: I32
    driverName: Annotated[bytes, c.c_char * 256]
    driverInfo: Annotated[bytes, c.c_char * 256]
    conformanceVersion: ConformanceVersion


@structure(1000094000)
class PhysicalDeviceSubgroupProperties(Chained):
    subgroupSize: U32
    supportedStages: U32
    supportedOperations: U32
    quadOperationsInAllStages: U32


@structure(1000225000)
class PhysicalDeviceSubgroupSizeControlProperties(Chained):
    minSubgroupSize: U32
    maxSubgroupSize: U32
    maxComputeWorkgroupSubgroups: U32
    requiredSubgroupSizeStages: U32


@structure(1000168000)
class PhysicalDeviceMaintenance3Properties(Chained):
    maxPerSetDescriptors: U32
    maxMemoryAllocationSize: U64


@structure(1000280001)
class PhysicalDeviceShaderIntegerDotProductProperties(Chained):
    integerDotProduct8BitUnsignedAccelerated: U32
    integerDotProduct8BitSignedAccelerated: U32
    integerDotProduct8BitMixedSignednessAccelerated: U32
    integerDotProduct4x8BitPackedUnsignedAccelerated: U32
    integerDotProduct4x8BitPackedSignedAccelerated: U32
    integerDotProduct4x8BitPackedMixedSignednessAccelerated: U32
    integerDotProduct16BitUnsignedAccelerated: U32
    integerDotProduct16BitSignedAccelerated: U32
    integerDotProduct16BitMixedSignednessAccelerated: U32
    integerDotProduct32BitUnsignedAccelerated: U32
    integerDotProduct32BitSignedAccelerated: U32
    integerDotProduct32BitMixedSignednessAccelerated: U32
    integerDotProduct64BitUnsignedAccelerated: U32
    integerDotProduct64BitSignedAccelerated: U32
    integerDotProduct64BitMixedSignednessAccelerated: U32
    integerDotProductAccumulatingSaturating8BitUnsignedAccelerated: U32
    integerDotProductAccumulatingSaturating8BitSignedAccelerated: U32
    integerDotProductAccumulatingSaturating8BitMixedSignednessAccelerated: U32
    integerDotProductAccumulatingSaturating4x8BitPackedUnsignedAccelerated: U32
    integerDotProductAccumulatingSaturating4x8BitPackedSignedAccelerated: U32
    integerDotProductAccumulatingSaturating4x8BitPackedMixedSignednessAccelerated: U32
    integerDotProductAccumulatingSaturating16BitUnsignedAccelerated: U32
    integerDotProductAccumulatingSaturating16BitSignedAccelerated: U32
    integerDotProductAccumulatingSaturating16BitMixedSignednessAccelerated: U32
    integerDotProductAccumulatingSaturating32BitUnsignedAccelerated: U32
    integerDotProductAccumulatingSaturating32BitSignedAccelerated: U32
    integerDotProductAccumulatingSaturating32BitMixedSignednessAccelerated: U32
    integerDotProductAccumulatingSaturating64BitUnsignedAccelerated: U32
    integerDotProductAccumulatingSaturating64BitSignedAccelerated: U32
    integerDotProductAccumulatingSaturating64BitMixedSignednessAccelerated: U32


@structure(1000197000)
class PhysicalDeviceFloatControlsProperties(Chained):
    denormBehaviorIndependence: I32
    roundingModeIndependence: I32
    shaderSignedZeroInfNanPreserveFloat16: U32
    shaderSignedZeroInfNanPreserveFloat32: U32
    shaderSignedZeroInfNanPreserveFloat64: U32
    shaderDenormPreserveFloat16: U32
    shaderDenormPreserveFloat32: U32
    shaderDenormPreserveFloat64: U32
    shaderDenormFlushToZeroFloat16: U32
    shaderDenormFlushToZeroFloat32: U32
    shaderDenormFlushToZeroFloat64: U32
    shaderRoundingModeRTEFloat16: U32
    shaderRoundingModeRTEFloat32: U32
    shaderRoundingModeRTEFloat64: U32
    shaderRoundingModeRTZFloat16: U32
    shaderRoundingModeRTZFloat32: U32
    shaderRoundingModeRTZFloat64: U32


@structure(1000154001)
class PhysicalDeviceShaderSMBuiltinsPropertiesNV(Chained):
    shaderSMCount: U32
    shaderWarpsPerSM: U32


@structure(1000185000)
class PhysicalDeviceShaderCorePropertiesAMD(Chained):
    shaderEngineCount: U32
    shaderArraysPerEngineCount: U32
    computeUnitsPerShaderArray: U32
    simdPerComputeUnit: U32
    wavefrontsPerSimd: U32
    wavefrontSize: U32
    sgprsPerSimd: U32
    minSgprAllocation: U32
    maxSgprAllocation: U32
    sgprAllocationGranularity: U32
    vgprsPerSimd: U32
    minVgprAllocation: U32
    maxVgprAllocation: U32
    vgprAllocationGranularity: U32


@structure(1000497001)
class PhysicalDeviceShaderCoreBuiltinsPropertiesARM(Chained):
    shaderCoreMask: U64
    shaderCoreCount: U32
    shaderWarpsPerCore: U32


@structure(1000506001)
class CooperativeMatrixPropertiesKHR(Chained):
    MSize: U32
    NSize: U32
    KSize: U32
    AType: I32
    BType: I32
    CType: I32
    ResultType: I32
    saturatingAccumulation: U32
    scope: I32


@structure(1000593001)
class CooperativeMatrixFlexibleDimensionsPropertiesNV(Chained):
    MGranularity: U32
    NGranularity: U32
    KGranularity: U32
    AType: I32
    BType: I32
    CType: I32
    ResultType: I32
    saturatingAccumulation: U32
    scope: I32
    workgroupInvocations: U32


@structure(1000269001)
class PipelineInfoKHR(Chained):
    pipeline: Handle


@structure(1000269002)
class PipelineExecutablePropertiesKHR(Chained):
    stages: U32
    name: Annotated[bytes, c.c_char * 256]
    description: Annotated[bytes, c.c_char * 256]
    subgroupSize: U32


@structure(1000269003)
class PipelineExecutableInfoKHR(Chained):
    pipeline: Handle
    executableIndex: U32


@structure(1000269004)
class PipelineExecutableStatisticKHR(Chained):
    name: Annotated[bytes, c.c_char * 256]
    description: Annotated[bytes, c.c_char * 256]
    format: I32
    value: U64


@structure(1000269005)
class PipelineExecutableInternalRepresentationKHR(Chained):
    name: Annotated[bytes, c.c_char * 256]
    description: Annotated[bytes, c.c_char * 256]
    isText: U32
    dataSize: Size
    pData: Pointer


@structure(1000128004)
class DebugUtilsMessengerCreateInfoEXT(Chained):
    flags: U32
    messageSeverity: U32
    messageType: U32
    pfnUserCallback: Pointer
    pUserData: Pointer


@structure(1000128003)
class DebugUtilsMessengerCallbackDataEXT(Chained):
    flags: U32
    pMessageIdName: Text
    messageIdNumber: I32
    pMessage: Text
    queueLabelCount: U32
    pQueueLabels: Pointer
    cmdBufLabelCount: U32
    pCmdBufLabels: Pointer
    objectCount: U32
    pObjects: Pointer


@structure(1000245000)
class PhysicalDeviceToolProperties(Chained):
    name: Annotated[bytes, c.c_char * 256]
    version: Annotated[bytes, c.c_char * 256]
    purposes: U32
    description: Annotated[bytes, c.c_char * 256]
    layer: Annotated[bytes, c.c_char * 256]


@structure(1000247000)
class ValidationFeaturesEXT(Chained):
    enabledValidationFeatureCount: U32
    pEnabledValidationFeatures: Pointer
    disabledValidationFeatureCount: U32
    pDisabledValidationFeatures: Pointer


@structure(1000146003)
class MemoryRequirements2(Chained):
    memoryRequirements: MemoryRequirements


@structure(1000460006)
class TensorDescriptionARM(Chained):
    tiling: I32
    format: I32
    dimensionCount: U32
    pDimensions: Pointer
    pStrides: Pointer
    usage: U64


@structure(1000460000)
class TensorCreateInfoARM(Chained):
    flags: U64
    pDescription: Pointer
    sharingMode: I32
    queueFamilyIndexCount: U32
    pQueueFamilyIndices: Pointer


@structure(1000460001)
class TensorViewCreateInfoARM(Chained):
    flags: U64
    tensor: Handle
    format: I32


@structure(1000460007)
class TensorMemoryRequirementsInfoARM(Chained):
    tensor: Handle


@structure(1000460002)
class BindTensorMemoryInfoARM(Chained):
    tensor: Handle
    memory: Handle
    memoryOffset: U64


@structure(1000460003)
class WriteDescriptorSetTensorARM(Chained):
    tensorViewCount: U32
    pTensorViews: Pointer


@structure(1000507003)
class DataGraphPipelineConstantARM(Chained):
    id: U32
    pConstantData: Pointer


@structure(1000507007)
class DataGraphPipelineShaderModuleCreateInfoARM(Chained):
    module: Handle
    pName: Text
    pSpecializationInfo: Pointer
    constantCount: U32
    pConstants: Pointer


@structure(1000507002)
class DataGraphPipelineResourceInfoARM(Chained):
    descriptorSet: U32
    binding: U32
    arrayElement: U32


@structure(1000507000)
class DataGraphPipelineCreateInfoARM(Chained):
    flags: U64
    layout: Handle
    resourceInfoCount: U32
    pResourceInfos: Pointer


@structure(1000507001)
class DataGraphPipelineSessionCreateInfoARM(Chained):
    flags: U64
    dataGraphPipeline: Handle


@structure(1000507011)
class DataGraphPipelineSessionBindPointRequirementsInfoARM(Chained):
    session: Handle


@structure(1000507012)
class DataGraphPipelineSessionBindPointRequirementARM(Chained):
    bindPoint: I32
    bindPointType: I32
    numObjects: U32


@structure(1000507004)
class DataGraphPipelineSessionMemoryRequirementsInfoARM(Chained):
    session: Handle
    bindPoint: I32
    objectIndex: U32


@structure(1000507005)
class BindDataGraphPipelineSessionMemoryInfoARM(Chained):
    session: Handle
    bindPoint: I32
    objectIndex: U32
    memory: Handle
    memoryOffset: U64
