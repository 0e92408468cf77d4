//! Functions that are compiled and linked together.

use super::code::{Code, Draft, Function as Placed};
use super::link::{Compiled, layout, link};
use super::{JitError, host};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, Signature, Type, UserExternalName, UserFuncName,
};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::print_errors::pretty_error;
use indexmap::IndexMap;
use pullback_runtime::threads;
use std::fmt::Write;
use std::sync::Arc;

/// Estimated nanoseconds to compile one instruction.
const NANOSECONDS_PER_INSTRUCTION: u64 = 6_000;

/// A function of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FunctionId(u32);

/// Functions to compile and link together.
pub struct Unit {
    isa: OwnedTargetIsa,
    functions: IndexMap<String, Declared>,
    keep_texts: bool,
}

struct Declared {
    signature: Signature,
    body: Body,
}

enum Body {
    /// Declared, not defined yet; or compiled.
    Missing,
    /// To be compiled.
    Defined(Box<Function>),
    /// Elsewhere in the process.
    Address(usize),
}

impl Unit {
    /// A unit without functions, for this machine.
    pub fn new() -> Result<Unit, JitError> {
        Ok(Unit::with_isa(host()?))
    }

    /// A unit without functions. Code for a processor that this machine is not must not be run.
    pub(crate) fn with_isa(isa: OwnedTargetIsa) -> Unit {
        Unit { isa, functions: IndexMap::new(), keep_texts: false }
    }

    /// Whether [`Code`] keeps the text of each function, before and after compilation. Off at first.
    pub fn keep_texts(&mut self, keep: bool) {
        self.keep_texts = keep;
    }

    /// The code generator.
    pub fn isa(&self) -> &OwnedTargetIsa {
        &self.isa
    }

    /// A signature of C functions on this machine.
    pub fn signature(&self, parameters: &[Type], returns: &[Type]) -> Signature {
        let mut signature = Signature::new(self.isa.default_call_conv());
        signature.params = parameters.iter().map(|&ty| AbiParam::new(ty)).collect();
        signature.returns = returns.iter().map(|&ty| AbiParam::new(ty)).collect();
        signature
    }

    /// The function of that name.
    pub fn get(&self, name: &str) -> Option<FunctionId> {
        self.functions.get_index_of(name).map(|index| FunctionId(index as u32))
    }

    /// A function to be defined later, so that it can be called before. A name stands for one function: declared
    /// again, it is the same one.
    pub fn declare(&mut self, name: impl Into<String>, signature: Signature) -> FunctionId {
        self.enter(name.into(), signature, Body::Missing)
    }

    /// A function of the process, to be called by its address.
    pub fn import(
        &mut self,
        name: impl Into<String>,
        signature: Signature,
        address: *const u8,
    ) -> FunctionId {
        self.enter(name.into(), signature, Body::Address(address.expose_provenance()))
    }

    fn enter(&mut self, name: String, signature: Signature, body: Body) -> FunctionId {
        let entry = self.functions.entry(name);
        let id = FunctionId(entry.index() as u32);
        entry.or_insert(Declared { signature, body });
        id
    }

    /// An empty function to fill and then [`Unit::define`].
    pub fn function(&self, id: FunctionId) -> Function {
        let signature = self.functions[id.0 as usize].signature.clone();
        Function::with_name_signature(UserFuncName::user(0, id.0), signature)
    }

    /// Gives a declared function its body.
    pub fn define(&mut self, id: FunctionId, function: Function) {
        self.functions[id.0 as usize].body = Body::Defined(Box::new(function));
    }

    /// Lets `function` call `callee`.
    pub fn reference(&self, callee: FunctionId, function: &mut Function) -> FuncRef {
        let declared = &self.functions[callee.0 as usize];
        let name = UserExternalName { namespace: 0, index: callee.0 };
        let name = ExternalName::user(function.declare_imported_user_function(name));
        let signature = function.import_signature(declared.signature.clone());
        let colocated = !matches!(declared.body, Body::Address(_));
        function.import_function(ExtFuncData { name, signature, colocated, patchable: false })
    }

    /// Compiles every defined function, in parallel, and links them.
    pub fn finish(mut self) -> Result<Arc<Code>, JitError> {
        let compiled = self.compile()?;
        let starts = layout(&compiled);
        let bytes = starts.total;
        let draft = Draft::new(bytes)?;
        let address = |id: u32| match self.functions.get_index(id as usize) {
            Some((_, Declared { body: Body::Address(address), .. })) => Ok(*address),
            Some((name, _)) => starts
                .offset(id)
                .map(|offset| draft.base() + offset)
                .ok_or_else(|| JitError::Undefined(name.clone())),
            None => Err(JitError::Undefined(format!("u0:{id}"))),
        };
        let code = link(&compiled, &starts, draft.base(), address)?;
        let placed = compiled.into_iter().filter_map(|function| {
            let offset = starts.offset(function.id)?;
            Some((function.name, Placed { offset, clif: function.clif, disassembly: function.disassembly }))
        });
        let placed = placed.collect();
        Ok(Arc::new(draft.publish(&code, placed)?))
    }

    /// The defined functions, compiled, in order of declaration. Their bodies are used up.
    fn compile(&mut self) -> Result<Vec<Compiled>, JitError> {
        let mut tasks = Vec::new();
        for (id, (name, declared)) in self.functions.iter_mut().enumerate() {
            if matches!(declared.body, Body::Defined(_))
                && let Body::Defined(function) = std::mem::replace(&mut declared.body, Body::Missing)
            {
                let size = function.dfg.num_insts();
                let name = name.clone();
                tasks.push(Task { id: id as u32, name, size, function: Some(function), result: None });
            }
        }
        // The largest first, so that none is left for the end; the order of the results is put right after.
        tasks.sort_by_key(|task| std::cmp::Reverse(task.size));
        let instructions: usize = tasks.iter().map(|task| task.size).sum();
        threads::for_chunks_mut(
            &mut tasks,
            1,
            instructions as u64 * NANOSECONDS_PER_INSTRUCTION,
            |_, tasks| {
                for task in tasks {
                    task.result = task.function.take().map(|function| self.compile_one(task, *function));
                }
            },
        );
        tasks.sort_by_key(|task| task.id);
        tasks.into_iter().filter_map(|task| task.result).collect()
    }

    fn compile_one(&self, task: &Task, function: Function) -> Result<Compiled, JitError> {
        let clif = self.keep_texts.then(|| self.text(&function));
        let mut context = Context::for_function(function);
        context.set_disasm(self.keep_texts);
        context.compile(&*self.isa, &mut ControlPlane::default()).map_err(|error| JitError::Compile {
            function: task.name.clone(),
            message: pretty_error(error.func, error.inner),
        })?;
        let missing = || JitError::Compile { function: task.name.clone(), message: "no code".to_string() };
        let code = context.take_compiled_code().ok_or_else(missing)?;
        Ok(Compiled {
            id: task.id,
            name: task.name.clone(),
            alignment: code.buffer.alignment.max(self.isa.function_alignment().preferred) as usize,
            bytes: code.code_buffer().to_vec(),
            references: Compiled::references(&code, &context.func),
            clif,
            disassembly: code.vcode,
        })
    }

    /// The text of a function, after a list of what the numbers of its callees stand for.
    fn text(&self, function: &Function) -> String {
        let mut text = String::new();
        for external in function.params.user_named_funcs().values() {
            let name = self.functions.get_index(external.index as usize).map_or("?", |(name, _)| name);
            let _ = writeln!(text, "; {external} = {name}");
        }
        let _ = write!(text, "{}", function.display());
        text
    }
}

/// A function on its way through the compiler.
struct Task {
    id: u32,
    name: String,
    size: usize,
    function: Option<Box<Function>>,
    result: Option<Result<Compiled, JitError>>,
}
