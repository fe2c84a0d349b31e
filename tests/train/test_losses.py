"""The truth has no loss, and the truth about two pictures agrees with the pictures."""

import numpy as np
import pytest
import torch

from recal3r.geometry.pose import quaternion_from_rotation
from recal3r.model.heads import Points, ReadOut
from recal3r.train.lessons import read_losses
from recal3r.train.losses import angle_between, motion_of, motion_of_matrix, points_loss, pose_losses
from recal3r.train.truth import camera_points, correspondence, patch_targets, world_points


def _windows(footage, frames=6):
    index = np.tile(np.arange(frames), (3, 1))
    return footage.cut(np.arange(3), index, np.zeros(3, np.int64))


def _true_pose(takes):
    matrices = takes.poses.double().numpy()
    wxyz = quaternion_from_rotation(matrices[..., :3, :3])
    return torch.from_numpy(np.concatenate((matrices[..., :3, 3], wxyz), axis=-1)).float()


def test_the_truth_has_no_pose_loss(footage):
    takes = _windows(footage)
    losses = pose_losses(_true_pose(takes), takes.poses)
    assert set(losses) == {"translation", "rotation", "step_translation", "step_rotation"}
    assert all(float(loss) < 1e-4 for loss in losses.values())


def test_true_points_cost_nothing_but_the_confidence_term(footage):
    takes = _windows(footage)
    points = camera_points(takes.depth, takes.intrinsics)
    sure = torch.full_like(takes.depth, 3.0)
    read = ReadOut(_true_pose(takes), Points(points, sure), Points(world_points(points, takes.poses), sure))
    losses = read_losses(read, takes)
    assert float(losses["camera"]) == pytest.approx(-0.2 * np.log(3.0), abs=1e-5)
    assert float(losses["world"]) == pytest.approx(-0.1 * np.log(3.0), abs=1e-5)


def test_no_motion_has_a_loss_and_a_slope(footage):
    takes = _windows(footage)
    still = torch.tensor([0.0, 0, 0, 1, 0, 0, 0]).repeat(3, 6, 1).requires_grad_()
    losses = pose_losses(still, takes.poses)
    assert all(float(loss.detach()) > 0.05 for loss in losses.values())
    torch.stack(list(losses.values())).sum().backward()
    assert torch.isfinite(still.grad).all()
    assert still.grad[:, 1:].abs().sum() > 0


def test_an_angle_is_in_radians():
    turn = torch.tensor([[0.0, 0, 0, np.cos(0.05), 0, np.sin(0.05), 0]])
    assert float(angle_between(motion_of(turn).rotation, torch.eye(3))) == pytest.approx(0.1, abs=2e-3)


def test_steps_between_frames_lead_from_frame_to_frame(footage):
    motion = motion_of_matrix(_windows(footage).poses)
    step = motion.between()
    reached = motion.translation[:, :-1] + (motion.rotation[:, :-1] @ step.translation[..., None])[..., 0]
    torch.testing.assert_close(reached, motion.translation[:, 1:], atol=1e-5, rtol=0)


def test_world_points_of_two_frames_are_the_same_places(footage):
    """Where a pixel of the second picture is seen in the first, both say the same point."""
    takes = footage.pairs(np.random.default_rng(3), 16)
    matches = correspondence(takes)
    world = world_points(camera_points(takes.depth, takes.intrinsics), takes.poses)
    column, row = matches.pixels.round().long().unbind(-1)
    index = (row.clamp(0, 47) * 64 + column.clamp(0, 63)).flatten(1)[..., None].expand(-1, -1, 3)
    there = world[:, 0].flatten(1, 2).gather(1, index).view_as(world[:, 1])
    apart = (there - world[:, 1]).norm(dim=-1)[matches.seen]
    assert matches.seen.float().mean() > 0.3
    assert apart.median() < 0.06  # half a pixel of 64 at 2 to 4 m


def test_the_picture_itself_matches_patch_by_patch(footage):
    takes = footage.cut(np.array([0]), np.array([[4, 4]]), np.array([4]))
    target, valid = patch_targets(correspondence(takes), 8)
    assert valid.all()
    assert target[0].tolist() == list(range(48))


def test_confidence_is_bounded():
    far = torch.full((1, 3), 5.0)
    endless = points_loss(torch.zeros(1, 3), torch.tensor([1e30]), far)
    assert torch.isfinite(endless)
    assert endless < 149.5 * far.norm()
