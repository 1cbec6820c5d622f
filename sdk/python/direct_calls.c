/* Calls as Python functions, for arrays that describe themselves as torch's or NumPy's do: between Python and the
 * library there is no code in Python, which would take several times as long as a small collective. build_native.py
 * puts this into the bridge, after the table of the library's functions. */
#include <stdlib.h>

enum { kMostDimensions = 32, kNotDirect = -1, kSurfaceMs = 100 };

/* The names of attributes; made once, and kept. */
static PyObject *name_is_cpu, *name_is_contiguous, *name_is_neg, *name_dtype, *name_shape, *name_data_ptr;
static PyObject *name_array_interface, *name_data, *name_strides, *name_itemsize;

/* Adds a submission to the caller's list of those that go on. An exception that is set stays. */
static int add_to(PyObject* list, farandole_handle handle) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* number = PyLong_FromLongLong(handle);
  const int code = number == NULL ? -1 : PyList_Append(list, number);
  Py_XDECREF(number);
  if (type != NULL) PyErr_Restore(type, value, trace);
  return code;
}

/* Waits for a submission, and looks for signals meanwhile, whose handlers may submit others. -1 with an exception set:
 * a handler raised it, and the submission goes on; `pending` has it then. */
static int wait_for(farandole_handle handle, int code, PyObject* pending) {
  while (code == FARANDOLE_STILL_PENDING) {
    if (PyErr_CheckSignals() != 0) {
      add_to(pending, handle);
      return -1;
    }
    PyThreadState* state = PyEval_SaveThread();
    code = table.farandole_finish(handle, kSurfaceMs);
    PyEval_RestoreThread(state);
  }
  return code;
}

static int is_true(PyObject* object) {
  const int truth = object != NULL && PyObject_IsTrue(object) == 1;
  Py_XDECREF(object);
  return truth;
}

static int is_false(PyObject* object) {
  const int is_known = object != NULL && PyObject_IsTrue(object) == 0;
  Py_XDECREF(object);
  return is_known;
}

static void* address_of(PyObject* tensor) {
  PyObject* number = PyObject_CallMethodObjArgs(tensor, name_data_ptr, NULL);
  void* address = number == NULL ? NULL : PyLong_AsVoidPtr(number);
  Py_XDECREF(number);
  return address;
}

/* The element type's number; kNotDirect: the library cannot read the tensor where it lies. */
static long type_of(PyObject* tensor, PyObject* types) {
  if (!is_true(PyObject_GetAttr(tensor, name_is_cpu))) return kNotDirect;
  if (!is_true(PyObject_CallMethodObjArgs(tensor, name_is_contiguous, NULL))) return kNotDirect;
  if (!is_false(PyObject_CallMethodObjArgs(tensor, name_is_neg, NULL))) return kNotDirect;
  PyObject* type = PyObject_GetAttr(tensor, name_dtype);
  PyObject* number = type == NULL ? NULL : PyDict_GetItem(types, type);
  Py_XDECREF(type);
  return number == NULL ? kNotDirect : PyLong_AsLong(number);
}

/* The number of dimensions; kNotDirect: too many, or no shape. */
static int shape_of(PyObject* tensor, int64_t* dims) {
  PyObject* shape = PyObject_GetAttr(tensor, name_shape);
  Py_ssize_t count = shape != NULL && PyTuple_Check(shape) ? PyTuple_Size(shape) : kMostDimensions + 1;
  if (count > kMostDimensions) count = kNotDirect;
  for (Py_ssize_t i = 0; i < count; ++i) dims[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
  Py_XDECREF(shape);
  return (int)count;
}

/* The arguments that all calls have after their tensors: (.., types, name, op, prescale, postscale, group,
 * pending). */
struct terms {
  PyObject* types;
  const char* name;
  int32_t op;
  double prescale;
  double postscale;
  int32_t group;
  PyObject* pending;
};

static int read_terms(PyObject* const* arguments, Py_ssize_t count, struct terms* terms) {
  if (count != 9 || !PyList_Check(arguments[8])) {
    PyErr_SetString(PyExc_TypeError, "(inputs, outputs, types, name, op, prescale, postscale, group, pending)");
    return 0;
  }
  terms->types = arguments[2];
  terms->name = arguments[3] == Py_None ? NULL : PyBytes_AsString(arguments[3]);
  terms->op = (int32_t)PyLong_AsLong(arguments[4]);
  terms->prescale = PyFloat_AsDouble(arguments[5]);
  terms->postscale = PyFloat_AsDouble(arguments[6]);
  terms->group = (int32_t)PyLong_AsLong(arguments[7]);
  terms->pending = arguments[8];
  return PyErr_Occurred() == NULL;
}

/* The library's code, or NULL with the exception of a signal's handler. After kNotDirect without one, the caller takes
 * the other way, which reports the error. */
static PyObject* answer(long code) {
  if (code == kNotDirect && PyErr_Occurred() != NULL) return NULL;
  return PyLong_FromLong(code);
}

/* Where the tensors lie, and what the input looks like. */
struct view {
  void* input;
  void* output;
  int64_t dims[kMostDimensions];
  int32_t ndim;
  int32_t type;
};

/* 0: the library cannot read the input where it lies. */
static int read_view(PyObject* input, PyObject* output, PyObject* types, struct view* view) {
  const long type = type_of(input, types);
  const int ndim = type < 0 ? kNotDirect : shape_of(input, view->dims);
  view->input = ndim < 0 ? NULL : address_of(input);
  view->output = input == output || ndim < 0 ? view->input : address_of(output);
  view->ndim = ndim;
  view->type = (int32_t)type;
  if (view->input != NULL && PyErr_Occurred() == NULL) return 1;
  PyErr_Clear();
  return 0;
}

static PyObject* allreduce(PyObject* self, PyObject* const* arguments, Py_ssize_t argument_count) {
  struct terms terms;
  struct view view;
  (void)self;
  if (!read_terms(arguments, argument_count, &terms)) return NULL;
  if (!read_view(arguments[0], arguments[1], terms.types, &view)) return PyLong_FromLong(kNotDirect);
  farandole_handle handle = 0;
  PyThreadState* state = PyEval_SaveThread();
  const int code =
      table.farandole_allreduce_now(terms.name, view.input, view.output, view.dims, view.ndim, view.type, terms.op,
                                    terms.prescale, terms.postscale, terms.group, kSurfaceMs, &handle);
  PyEval_RestoreThread(state);
  return answer(wait_for(handle, code, terms.pending));
}

/* 0, and `pending` has the library's handle; or its error (negative). None: the caller takes the other way. */
static PyObject* allreduce_async(PyObject* self, PyObject* const* arguments, Py_ssize_t argument_count) {
  struct terms terms;
  struct view view;
  (void)self;
  if (!read_terms(arguments, argument_count, &terms)) return NULL;
  if (!read_view(arguments[0], arguments[1], terms.types, &view)) Py_RETURN_NONE;
  PyThreadState* state = PyEval_SaveThread();
  const farandole_handle handle =
      table.farandole_allreduce(terms.name, view.input, view.output, view.dims, view.ndim, view.type, terms.op,
                                terms.prescale, terms.postscale, terms.group, 0);
  PyEval_RestoreThread(state);
  if (handle < 0) return PyLong_FromLongLong(handle);
  return add_to(terms.pending, handle) == 0 ? PyLong_FromLong(0) : NULL;
}

/* Where an array of NumPy lies. NULL: it has gaps, or is read-only where it must not be. */
static void* memory_of(PyObject* array, int is_written) {
  PyObject* interface = PyObject_GetAttr(array, name_array_interface);
  /* The address, and whether it is read-only. */
  PyObject* place = interface == NULL ? NULL : PyDict_GetItem(interface, name_data);
  void* address = NULL;
  if (place != NULL && PyDict_GetItem(interface, name_strides) == Py_None &&
      !(is_written && PyObject_IsTrue(PyTuple_GetItem(place, 1)))) {
    address = PyLong_AsVoidPtr(PyTuple_GetItem(place, 0));
  }
  Py_XDECREF(interface);
  return address;
}

static int is_aligned(PyObject* array, const void* address) {
  PyObject* number = PyObject_GetAttr(array, name_itemsize);
  const size_t size = number == NULL ? 0 : PyLong_AsSize_t(number);
  Py_XDECREF(number);
  return size > 0 && (uintptr_t)address % size == 0;
}

/* As read_view, for arrays of NumPy. The output is like the input. */
static int read_arrays(PyObject* input, PyObject* output, PyObject* types, struct view* view) {
  PyObject* dtype = PyObject_GetAttr(input, name_dtype);
  PyObject* type = dtype == NULL ? NULL : PyDict_GetItem(types, dtype);
  Py_XDECREF(dtype);
  view->input = type == NULL ? NULL : memory_of(input, input == output);
  view->output = view->input == NULL || input == output ? view->input : memory_of(output, 1);
  view->ndim = view->output == NULL ? kNotDirect : shape_of(input, view->dims);
  view->type = type == NULL ? kNotDirect : (int32_t)PyLong_AsLong(type);
  if (view->ndim >= 0 && is_aligned(input, view->input) && PyErr_Occurred() == NULL) return 1;
  PyErr_Clear();
  return 0;
}

/* Of arrays of NumPy: 0, the ranks' error (positive), or minus the error of a call that the library has refused. None:
 * the caller takes the other way. */
static PyObject* allreduce_array(PyObject* self, PyObject* const* arguments, Py_ssize_t argument_count) {
  struct terms terms;
  struct view view;
  (void)self;
  if (!read_terms(arguments, argument_count, &terms)) return NULL;
  if (!read_arrays(arguments[0], arguments[1], terms.types, &view)) Py_RETURN_NONE;
  PyThreadState* state = PyEval_SaveThread();
  const farandole_handle handle =
      table.farandole_allreduce(terms.name, view.input, view.output, view.dims, view.ndim, view.type, terms.op,
                                terms.prescale, terms.postscale, terms.group, kSurfaceMs);
  const int code = handle < 0 ? 0 : table.farandole_finish(handle, kSurfaceMs);
  PyEval_RestoreThread(state);
  return handle < 0 ? PyLong_FromLongLong(handle) : answer(wait_for(handle, code, terms.pending));
}

/* Describes lists of tensors of one element type, which it returns. */
static long describe_all(PyObject* inputs, PyObject* outputs, PyObject* types, Py_ssize_t count,
                         farandole_tensor* tensors, int64_t* dims) {
  long type = kNotDirect;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* input = PyList_GetItem(inputs, i);
    PyObject* output = PyList_GetItem(outputs, i);
    const long own = type_of(input, types);
    if (own < 0 || (i > 0 && own != type)) return kNotDirect;
    type = own;
    tensors[i].shape = dims + i * kMostDimensions;
    tensors[i].ndim = shape_of(input, dims + i * kMostDimensions);
    tensors[i].input = address_of(input);
    tensors[i].output = input == output ? (void*)tensors[i].input : address_of(output);
    if (tensors[i].ndim < 0 || tensors[i].input == NULL || PyErr_Occurred() != NULL) return kNotDirect;
  }
  return type;
}

static PyObject* grouped_allreduce(PyObject* self, PyObject* const* arguments, Py_ssize_t argument_count) {
  struct terms terms;
  (void)self;
  if (!read_terms(arguments, argument_count, &terms)) return NULL;
  PyObject* inputs = arguments[0];
  PyObject* outputs = arguments[1];
  const Py_ssize_t count = PyList_Check(inputs) && PyList_Check(outputs) ? PyList_Size(inputs) : 0;
  if (count == 0 || count != PyList_Size(outputs)) return PyLong_FromLong(kNotDirect);
  farandole_tensor* tensors = calloc((size_t)count, sizeof(*tensors));
  int64_t* dims = calloc((size_t)count * kMostDimensions, sizeof(*dims));
  long type = kNotDirect;
  if (tensors != NULL && dims != NULL) type = describe_all(inputs, outputs, terms.types, count, tensors, dims);
  farandole_handle handle = kNotDirect;
  if (type >= 0) {
    PyThreadState* state = PyEval_SaveThread();
    handle = table.farandole_grouped_allreduce(terms.name, tensors, (int32_t)count, (int32_t)type, terms.op,
                                               terms.prescale, terms.postscale, terms.group, kSurfaceMs, NULL);
    PyEval_RestoreThread(state);
  }
  free(tensors);
  free(dims);
  if (type < 0) {
    PyErr_Clear();
    return PyLong_FromLong(kNotDirect);
  }
  return answer(handle < 0 ? (long)-handle : wait_for(handle, FARANDOLE_STILL_PENDING, terms.pending));
}

/* METH_FASTCALL, which all versions from 3.7 on understand; the headers show it to modules for 3.10 and later only. It
 * saves the tuple of the arguments. */
enum { kArgumentsAsArray = 0x0080 };

static PyMethodDef direct_methods[] = {
    {"allreduce", (PyCFunction)(void (*)(void))allreduce, kArgumentsAsArray, NULL},
    {"allreduce_array", (PyCFunction)(void (*)(void))allreduce_array, kArgumentsAsArray, NULL},
    {"allreduce_async", (PyCFunction)(void (*)(void))allreduce_async, kArgumentsAsArray, NULL},
    {"grouped_allreduce", (PyCFunction)(void (*)(void))grouped_allreduce, kArgumentsAsArray, NULL},
};

/* Where the definition of a function is, of which Python makes the function; 0: there is none of that name. */
static uintptr_t farandole_native_direct(const char* name) {
  PyGILState_STATE state = PyGILState_Ensure();
  name_is_cpu = PyUnicode_InternFromString("is_cpu");
  name_is_contiguous = PyUnicode_InternFromString("is_contiguous");
  name_is_neg = PyUnicode_InternFromString("is_neg");
  name_dtype = PyUnicode_InternFromString("dtype");
  name_shape = PyUnicode_InternFromString("shape");
  name_data_ptr = PyUnicode_InternFromString("data_ptr");
  name_array_interface = PyUnicode_InternFromString("__array_interface__");
  name_data = PyUnicode_InternFromString("data");
  name_strides = PyUnicode_InternFromString("strides");
  name_itemsize = PyUnicode_InternFromString("itemsize");
  PyGILState_Release(state);
  for (size_t i = 0; i < sizeof direct_methods / sizeof direct_methods[0]; ++i) {
    if (strcmp(direct_methods[i].ml_name, name) == 0) return (uintptr_t)&direct_methods[i];
  }
  return 0;
}
