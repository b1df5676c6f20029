#!/bin/sh
# nodes.sh: `bench/nodes.sh RANKS COMMAND...`: runs the command's ranks in turn on two "nodes" of this machine, network
# namespaces that are joined by a pair of virtual devices: they reach each other by TCP alone, and share the GPUs.
# Needs root, ip (iproute2), unshare and nsenter, and Open MPI's mpirun of $MPICC. Variables: RATE: of the link, as tc has it (such as
# 25gbit; none: what the kernel does).
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
ranks=${1:?usage: bench/nodes.sh RANKS COMMAND...}
shift
a=st$$a b=st$$b net=10.213.77
work=$(mktemp -d) || exit 1
trap 'ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

node() {   # NAMESPACE ADDRESS
    ip netns exec "$1" ip addr add "$2/24" dev "$1" && ip netns exec "$1" ip link set "$1" up &&
        ip netns exec "$1" ip link set lo up &&
        if [ -n "${RATE:-}" ]; then ip netns exec "$1" tc qdisc add dev "$1" root tbf rate "$RATE" burst 4mb latency 50ms; fi
}
ip netns add $a && ip netns add $b && ip link add $a netns $a type veth peer name $b netns $b &&
    node $a $net.1 && node $b $net.2
# shellcheck disable=SC2181
[ $? = 0 ] || { echo "nodes: no network namespaces: this needs root and iproute2" >&2; exit 1; }

# In the place of ssh: HOST COMMAND...
cat >"$work/on" <<END
#!/bin/sh
case \$1 in $net.1) to=$a ;; $net.2) to=$b ;; *) exit 1 ;; esac
shift
exec nsenter --net=/run/netns/\$to unshare -u sh -c "hostname \$to && \$*"
END
chmod +x "$work/on"
cat >"$work/hosts" <<END
$net.1 slots=$ranks
$net.2 slots=$ranks
END

export OMPI_MCA_plm_rsh_agent="$work/on" OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self
export OMPI_MCA_btl_tcp_if_include=$net.0/24 OMPI_MCA_oob_tcp_if_include=$net.0/24
# shellcheck disable=SC2016
nsenter --net=/run/netns/$a unshare -u sh -c 'hostname "$0" && exec "$@"' $a \
    "$here/tests/mpirun.sh" --hostfile "$work/hosts" --map-by node -n "$ranks" "$@"
